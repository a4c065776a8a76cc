/**
 * Measures the garbage of hot paths.
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

/** The fields of a `--trace-gc-nvp` line that are used here. */
interface Collection {
  /** "s" for a collection of the young generation. */
  readonly gc: string;
  /** "testing" for a collection that the program requested. */
  readonly reason: string;
  readonly start_object_size: number;
  readonly end_object_size: number;
}

/** Measures `operations` operations of each workload, each in a new process. */
export async function measureGarbage(operations: number): Promise<GarbageRow[]> {
  const rows: GarbageRow[] = [];
  for (const { name, work } of works) rows.push(garbageOf(name, await collectionsOf(work, operations), operations));
  return rows;
}

async function collectionsOf(work: string, operations: number): Promise<Collection[]> {
  const program = fileURLToPath(new URL("./garbage_workload.ts", import.meta.url));
  const flags = "--v8-flags=--expose-gc,--trace-gc,--trace-gc-nvp";
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--allow-ffi", "--allow-read", flags, program, work, String(operations)],
  }).output();
  const decoder = new TextDecoder();
  if (!success) throw new Error(decoder.decode(stderr).trim().split("\n")[0]);
  return [...decoder.decode(stdout).matchAll(/ GC: (\{.*\})/g)].map(([, json]) => JSON.parse(json!));
}

/** Counts the garbage and the collections between the two collections that the program requested. */
function garbageOf(name: string, collections: readonly Collection[], operations: number): GarbageRow {
  const isRequested = ({ reason }: Collection) => reason === "testing";
  const begin = collections.findIndex(isRequested);
  const end = collections.findLastIndex(isRequested);
  if (begin === end) {
    throw new Error(`Cannot measure the garbage of "${name}": V8 reported ${collections.length} collections`);
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
