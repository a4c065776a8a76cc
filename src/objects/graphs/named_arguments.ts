/**
 * The named arguments of a graph: what they are in the capture, which later values they accept, and where the nodes use
 * them.
 *
 * @module
 */
import type { DeviceArray } from "../../memory/device_array.ts";
import { allocationOf, type DeviceBuffer } from "../../memory/device_buffer.ts";
import { PitchedArray } from "../../memory/pitched_array.ts";
import { bytesOfHost, HostBuffer, sessionOfHost } from "../../memory/transfers/host_buffer.ts";
import { spanOf } from "../../memory/transfers/rows.ts";
import type { PitchedMemory } from "../../driver.ts";
import type { Session } from "../../session.ts";
import { countOf, listOf } from "../../support/printing.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";
import { didYouMean, errorOfAnotherCuda, shown, whatIs } from "../../support/validation.ts";
import { layoutOfBytes } from "../structs/struct.ts";
import { GraphArgument, type GraphArguments, type GraphArgumentValue } from "./graph_argument.ts";
import type { CopyNote, FillNote, RowsNote } from "../../driver_layers.ts";
import type { KernelNote, NodeNotes } from "./node_notes.ts";

/** An argument whose value a launch takes. */
export interface ValueArgument {
  readonly name: string;
  readonly kind: "number" | "bigint" | "boolean" | "struct";
  readonly value: GraphArgumentValue;
}

/** An argument that is memory: its range of addresses in the capture. */
export interface MemoryArgument {
  readonly name: string;
  readonly kind: "buffer" | "host buffer";
  readonly value: DeviceBuffer | HostBuffer;
  /** Undefined for page-locked memory that kernels cannot access. */
  readonly address: bigint | undefined;
  readonly byteLength: number;
  /** The constructor of an array's elements. */
  readonly type: unknown;
  /** The bytes of page-locked memory. */
  readonly bytes: Uint8Array | undefined;
}

/** An argument of a graph. */
export type NamedArgument = ValueArgument | MemoryArgument;

/** The arguments of a graph, by their names. */
export type NamedArguments = ReadonlyMap<string, NamedArgument>;

export const noArguments: NamedArguments = new Map();

/** Checks the arguments of a capture, and returns them by their names. */
export function namedArgumentsOf(
  values: GraphArguments,
  { session, into }: {
    readonly session: Session;
    /** The program's graph to which the work is added. */
    readonly into: { readonly named: NamedArguments } | undefined;
  },
): NamedArguments {
  if (typeof values !== "object" || values === null || isArgument(values) || Array.isArray(values)) {
    throw new TypeError(
      `Cannot capture a stream with ${
        whatIs(values)
      } as its arguments: give an object, as in { arguments: { a: 2.5, x } }`,
    );
  }
  const found = new Map<string, NamedArgument>();
  for (const [name, value] of Object.entries(values)) {
    if (into?.named.has(name)) {
      throw new TypeError(
        `Cannot capture a stream with an argument ${shown(name)} into a graph that has one already: use another name`,
      );
    }
    found.set(name, describe(name, value, session));
  }
  checkOverlap([...into?.named.values() ?? [], ...found.values()].filter(isMemory));
  return found;
}

function describe(name: string, value: GraphArgumentValue, session: Session): NamedArgument {
  const kind = kindOf(value);
  const action = `capture a stream with ${shown(value)} as its argument ${shown(name)}`;
  if (kind === undefined) throw new TypeError(`Cannot ${action}: ${accepted}${adviceFor(value)}`);
  if (kind !== "buffer" && kind !== "host buffer") return { name, kind, value };
  const memory = value as DeviceBuffer | HostBuffer;
  checkSession(memory, session);
  return {
    name,
    kind,
    value: memory,
    address: addressOf(memory),
    byteLength: memory.byteLength,
    type: (memory as Partial<DeviceArray<never>>).type,
    bytes: memory instanceof HostBuffer ? bytesOfHost(memory) : undefined,
  };
}

const accepted = "an argument is a buffer, an array, a HostBuffer, a number, a bigint, a boolean or a struct's value";

function adviceFor(value: unknown): string {
  if (value instanceof GraphArgument) return "; it belongs to another capture: give its value";
  if (value instanceof PitchedArray) return "; give the buffer that the rows are in, which is their property buffer";
  return ArrayBuffer.isView(value) ? "; copy it to a buffer, and give that" : "";
}

/** Whether a value is an argument by itself, and not an object of arguments. */
function isArgument(value: object): boolean {
  return value instanceof GraphArgument || kindOf(value as GraphArgumentValue) !== undefined;
}

function kindOf(value: unknown): NamedArgument["kind"] | undefined {
  const type = typeof value;
  if (type === "number" || type === "bigint" || type === "boolean") return type;
  if (value instanceof HostBuffer) return "host buffer";
  if (allocationOf(value) !== undefined) return "buffer";
  return ArrayBuffer.isView(value) && layoutOfBytes(value) !== undefined ? "struct" : undefined;
}

/** Whether an argument is memory. */
export function isMemory(argument: NamedArgument): argument is MemoryArgument {
  return argument.kind === "buffer" || argument.kind === "host buffer";
}

function checkSession(memory: DeviceBuffer | HostBuffer, session: Session): void {
  const own = memory instanceof HostBuffer ? sessionOfHost(memory) : allocationOf(memory).session;
  if (own !== session) throw errorOfAnotherCuda("use a buffer as an argument of a graph");
}

/** Returns the address of memory. Undefined for page-locked memory that kernels cannot access. */
function addressOf(memory: DeviceBuffer | HostBuffer): bigint | undefined {
  if (!(memory instanceof HostBuffer)) return memory.address;
  // Throws for a buffer that was disposed.
  void memory.buffer;
  try {
    return memory.address;
  } catch {
    return undefined;
  }
}

function checkOverlap(memory: readonly MemoryArgument[]): void {
  const placed = memory.filter(({ address }) => address !== undefined);
  placed.sort((a, b) => a.address! < b.address! ? -1 : 1);
  let last: MemoryArgument | undefined;
  for (const argument of placed) {
    if (last !== undefined && last.address! + BigInt(last.byteLength) > argument.address!) {
      refuseOverlap(last, argument);
    }
    last = argument;
  }
  for (const [index, argument] of memory.entries()) {
    const other = memory.slice(0, index).find(({ bytes }) => overlapInHost(bytes, argument.bytes));
    if (other !== undefined) refuseOverlap(other, argument);
  }
}

function overlapInHost(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  if (a === undefined || b === undefined || a.buffer !== b.buffer) return false;
  return a.byteOffset < b.byteOffset + b.byteLength && b.byteOffset < a.byteOffset + a.byteLength;
}

function refuseOverlap(first: MemoryArgument, second: MemoryArgument): never {
  throw new TypeError(
    `Cannot capture a stream with the arguments ${shown(first.name)} and ${
      shown(second.name)
    }: they overlap, so that ` +
      "it would not be clear which one a call uses; give the whole buffer, and use parts of it in the capture",
  );
}

/** Returns an argument by its name. Throws if there is none. */
export function argumentNamed(name: string, named: NamedArguments): NamedArgument {
  const found = named.get(name);
  if (found !== undefined) return found;
  const names = [...named.keys()];
  const why = names.length === 0
    ? "it was captured without arguments; give them as in capture(body, { arguments: { a: 2.5, x } })"
    : `its arguments are ${listOf(names)}${didYouMean(name, names)}`;
  throw new TypeError(`Cannot update the argument ${shown(name)} of a graph: ${why}`);
}

/** Throws unless an argument can get a value. */
export function checkValue(argument: NamedArgument, value: unknown, session: Session): void {
  const { name, kind } = argument;
  const given = kindOf(value);
  if (given !== kind) refuseValue(name, value, `give ${describeKind(argument)}${adviceFor(value)}`);
  if (!isMemory(argument)) return;
  const memory = value as DeviceBuffer | HostBuffer;
  checkSession(memory, session);
  if ((memory as Partial<DeviceArray<never>>).type !== argument.type && argument.type !== undefined) {
    const type = (memory as Partial<DeviceArray<never>>).type as { readonly name: string } | undefined;
    const what = type === undefined ? whatIs(memory) : `an array of ${type.name} elements`;
    throw new TypeError(`Cannot update the argument ${shown(name)} to ${what}: give ${describeKind(argument)}`);
  }
  if (memory.byteLength >= argument.byteLength) return;
  throw new RangeError(
    `Cannot update the argument ${shown(name)} to ${countOf(memory.byteLength, "byte")}: the graph was captured with ` +
      `${argument.byteLength}, and may use all of them`,
  );
}

function refuseValue(name: string, value: unknown, why: string): never {
  throw new TypeError(
    `Cannot update the argument ${shown(name)} to ${typeof value === "bigint" ? `${value}n` : shown(value)}: ${why}`,
  );
}

function describeKind(argument: NamedArgument): string {
  switch (argument.kind) {
    case "struct":
      return `a struct's value of ${countOf((argument.value as ArrayBufferView).byteLength, "byte")}`;
    case "host buffer":
      return "a HostBuffer";
    case "buffer": {
      const { type } = argument as MemoryArgument;
      return type === undefined ? "a DeviceBuffer" : `an array of ${(type as { readonly name: string }).name} elements`;
    }
    default:
      return `a ${argument.kind}`;
  }
}

/** A parameter of a kernel node, an end of a copy or the target of a fill that uses an argument. */
export interface ArgumentPlace {
  readonly node: bigint;
  /** The index of the kernel's parameter. */
  readonly index?: number;
  readonly end?: "source" | "destination";
  /** Where the node's memory begins in the argument's, in bytes. */
  readonly byteOffset: number;
}

/** Where the nodes of a graph use its arguments. */
export interface ArgumentPlaces {
  readonly places: ReadonlyMap<string, readonly ArgumentPlace[]>;
  /** What uses an argument and cannot be changed, by the argument's name. */
  readonly fixed: ReadonlyMap<string, string>;
}

export const noPlaces: ArgumentPlaces = { places: new Map(), fixed: new Map() };

/** Returns where nodes use each argument. */
export function placesOf(named: NamedArguments, notes: NodeNotes): ArgumentPlaces {
  const finder = new PlaceFinder(named);
  finder.add(notes, undefined);
  return finder;
}

/** Finds the places of arguments in the notes of nodes. */
class PlaceFinder implements ArgumentPlaces {
  readonly places: ReadonlyMap<string, ArgumentPlace[]>;
  readonly fixed = new Map<string, string>();
  readonly #memory: MemoryIndex;

  constructor(named: NamedArguments) {
    this.places = new Map([...named.keys()].map((name) => [name, []]));
    this.#memory = new MemoryIndex([...named.values()].filter(isMemory));
  }

  /** Adds the nodes of a graph. `fixedIn` is the graph in errors, if its nodes cannot be changed. */
  add(notes: NodeNotes, fixedIn: string | undefined): void {
    for (const [node, note] of notes.entries()) {
      switch (note.kind) {
        case "kernel":
          this.#addKernel(node, note, fixedIn);
          break;
        case "copy": {
          const { source, destination, byteLength } = note.copy;
          this.#add(this.#memory.find(source, byteLength), { node, end: "source" }, fixedIn);
          this.#add(this.#memory.find(destination, byteLength), { node, end: "destination" }, fixedIn);
          break;
        }
        case "rows": {
          const { source, destination } = note.copy;
          for (const end of [source, destination]) {
            this.#add(this.#memory.find(end.memory, sizeOfRows(note, end)), { node }, fixedIn ?? "a copy of rows");
          }
          break;
        }
        case "fill":
          this.#add(this.#memory.find(note.fill.address, sizeOfFill(note)), { node }, fixedIn);
          break;
        case "graph":
          this.add(note.notes, fixedIn ?? "a graph that was added as a node");
      }
    }
  }

  #addKernel(node: bigint, { addresses, named }: KernelNote, fixedIn: string | undefined): void {
    for (const { index, argument: { name } } of named) {
      if (this.places.has(name)) this.#add({ name, byteOffset: 0 }, { node, index }, fixedIn);
    }
    for (const { index, address, byteLength = 0 } of addresses) {
      this.#add(this.#memory.find(address, byteLength), { node, index }, fixedIn);
    }
  }

  #add(
    found: { readonly name: string; readonly byteOffset: number } | undefined,
    place: Omit<ArgumentPlace, "byteOffset">,
    fixedIn: string | undefined,
  ): void {
    if (found === undefined) return;
    const { name, byteOffset } = found;
    if (fixedIn === undefined) this.places.get(name)!.push({ ...place, byteOffset });
    else this.fixed.set(name, fixedIn);
  }
}

/** The bytes from the first to the last one that a copy of rows reads or writes. */
function sizeOfRows({ copy: { width, height, depth } }: RowsNote, { pitch, rows }: PitchedMemory): number {
  return spanOf({ width, height, depth }, { pitch, slicePitch: pitch * rows });
}

/** The bytes from the first to the last one that a fill sets. */
export function sizeOfFill({ fill: { width, elementSize, height, pitch } }: Pick<FillNote, "fill">): number {
  return (height - 1) * pitch + width * elementSize;
}

/** Finds the argument that memory belongs to. */
class MemoryIndex {
  /** Those that have an address, in the order of their addresses. */
  readonly #placed: readonly (MemoryArgument & { readonly address: bigint })[];
  readonly #inHost: readonly MemoryArgument[];

  constructor(memory: readonly MemoryArgument[]) {
    this.#placed = memory.filter((argument) => argument.address !== undefined)
      .map((argument) => ({ ...argument, address: argument.address! }))
      .sort((a, b) => a.address < b.address ? -1 : 1);
    this.#inHost = memory.filter(({ bytes }) => bytes !== undefined);
  }

  /** Returns the argument that a range lies in, and where. */
  find(memory: CopyNote["copy"]["source"], byteLength: number): { name: string; byteOffset: number } | undefined {
    if (typeof memory !== "bigint") {
      for (const { name, bytes, byteLength: whole } of this.#inHost) {
        const byteOffset = memory.byteOffset - bytes!.byteOffset;
        const isInside = memory.buffer === bytes!.buffer && byteOffset >= 0 && byteOffset + byteLength <= whole;
        if (isInside) return { name, byteOffset };
      }
      return undefined;
    }
    let low = 0, high = this.#placed.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#placed[middle]!.address <= memory) low = middle + 1;
      else high = middle;
    }
    const found = this.#placed[low - 1];
    if (found === undefined) return undefined;
    const byteOffset = Number(memory - found.address);
    const isInside = byteOffset < found.byteLength && byteOffset + byteLength <= found.byteLength;
    return isInside ? { name: found.name, byteOffset } : undefined;
  }
}
