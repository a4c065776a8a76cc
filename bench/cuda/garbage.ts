/**
 * What hot paths leave to the garbage collector.
 *
 *     deno run --allow-all bench/cuda/garbage.ts [OPERATIONS]
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { formatGarbage, type GarbageRow } from "./report.ts";

const works = [
  { name: "allocate + free", work: "allocate-free" },
  { name: "sub-allocator", work: "allocate-free-cached" },
  { name: "launch, 3 arguments", work: "launch-3" },
  { name: "event record", work: "event-record" },
  { name: "stream wait", work: "stream-wait" },
] as const;

/** A line of `--trace-gc-nvp`, as far as it is of use here. */
interface Collection {
  /** "s" for one of the young generation. */
  readonly gc: string;
  /** "testing" where a program asked for it. */
  readonly reason: string;
  readonly start_object_size: number;
  readonly end_object_size: number;
}

/** Does each so often, in a process of its own. */
export async function measureGarbage(operations: number): Promise<GarbageRow[]> {
  const rows: GarbageRow[] = [];
  for (const { name, work } of works) rows.push(garbageOf(name, await collectionsOf(work, operations), operations));
  return rows;
}

async function collectionsOf(work: string, operations: number): Promise<Collection[]> {
  const program = fileURLToPath(new URL("./garbage_work.ts", import.meta.url));
  const flags = "--v8-flags=--expose-gc,--trace-gc,--trace-gc-nvp";
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--allow-ffi", "--allow-read", flags, program, work, String(operations)],
  }).output();
  const text = new TextDecoder();
  if (!success) throw new Error(text.decode(stderr).trim().split("\n")[0]);
  return [...text.decode(stdout).matchAll(/ GC: (\{.*\})/g)].map(([, json]) => JSON.parse(json!));
}

/** Counts what lies between the two collections that the program asked for. */
function garbageOf(name: string, collections: readonly Collection[], operations: number): GarbageRow {
  const isAskedFor = ({ reason }: Collection) => reason === "testing";
  const begin = collections.findIndex(isAskedFor);
  const end = collections.findLastIndex(isAskedFor);
  if (begin === end) {
    throw new Error(`Cannot tell the garbage of "${name}": V8 told of ${collections.length} collections`);
  }
  let bytes = 0;
  for (let i = begin + 1; i <= end; i++) {
    bytes += collections[i]!.start_object_size - collections[i - 1]!.end_object_size;
  }
  const between = collections.slice(begin + 1, end);
  const scavenges = between.filter(({ gc }) => gc === "s").length;
  return { name, operations, bytesEach: bytes / operations, scavenges, majorCollections: between.length - scavenges };
}

if (import.meta.main) console.log(formatGarbage(await measureGarbage(Number(Deno.args[0] ?? 1_000_000))));
