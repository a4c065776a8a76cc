/**
 * What ranks can call, and how a message tells of it.
 *
 * @module
 */
import { reductionOperation } from "../../collective_library.ts";
import { elementType } from "./element_types.ts";
import type { Entry } from "./mailbox.ts";

/** The operations, by the numbers that they have in entries. */
export const operations = {
  allReduce: 1,
  reduce: 2,
  broadcast: 3,
  allGather: 4,
  reduceScatter: 5,
  allToAll: 6,
  send: 7,
  recv: 8,
} as const;

/** The name of an operation. */
export type OperationName = keyof typeof operations;

/** Says what a rank has called: "allReduce of 8 float32 with sum". The entry may be a peer's, and wrong. */
export function describe(entry: Omit<Entry, "offset" | "byteLength">): string {
  const { operation, type, reduction, root, count } = entry;
  const { allReduce, reduce, broadcast, reduceScatter } = operations;
  const name = nameIn(operations, operation);
  const elements = `${name} of ${count} ${elementType(type)?.name ?? `elements of type ${type}`}`;
  const how = `with ${nameIn(reductionOperation, reduction)}`;
  if (operation === allReduce || operation === reduceScatter) return `${elements} ${how}`;
  if (operation === reduce) return `${elements} ${how} to rank ${root}`;
  return operation === broadcast ? `${elements} from rank ${root}` : elements;
}

/** Whether two ranks have made the same call. */
export function agree(one: Entry, other: Entry): boolean {
  return one.operation === other.operation && one.type === other.type && one.reduction === other.reduction &&
    one.root === other.root && one.count === other.count;
}

function nameIn(names: Readonly<Record<string, number>>, number: number): string {
  return Object.keys(names).find((name) => names[name] === number) ?? `operation ${number}`;
}
