/**
 * Weights that leave the device: to host memory, to files, and to a folder from which a store is restored.
 *
 * @module
 */
import type {
  CudaDevice,
  DeviceBuffer,
  EntryMove,
  JsonValue,
  SavedEntry,
  StoreClient,
  WaitOptions,
} from "../../mod.ts";
import { bytesAt, type ByteSource, openSource } from "../files/byte_source.ts";
import { readRanges } from "../files/device_transfers.ts";
import { writeNewFile } from "../files/new_file.ts";
import { reading } from "../files/npy_arrays.ts";
import { writeFully } from "../files/runtime_files.ts";
import { arrayOf, writeSafetensors } from "../files/safetensors_files.ts";
import { isListOfCounts, isObject, readSafetensorsHeader } from "../files/safetensors_header.ts";
import { isDigest } from "../support/sha256.ts";
import { checkOptions, type KnownOptions, whatIs } from "../support/validation.ts";
import { throwIfAborted } from "../support/waiting/waiting.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";
import { checkRevision, GrowingRevision, sharingOf } from "./revision.ts";
import { manifestOf, readDescription, summaryOfWeights, type WeightsDescription } from "./weights_metadata.ts";

/** Options of `offloadWeights`. */
export interface OffloadWeightsOptions extends WaitOptions {
  /**
   * Where the weights go: `"host"`, the default, is host memory that the store keeps; anything else is the absolute path
   * of a folder, in which they become a safetensors file.
   */
  to?: string;
  /** Milliseconds to wait until no process has the weights mapped any more. 0 by default: they are not moved then. */
  timeout?: number;
  /** The rank whose part of a model to move, and the number of ranks that have published it. `[0, 1]` by default. */
  rank?: readonly [rank: number, count: number];
}

/** Options of `saveWeights`. */
export interface SaveWeightsOptions extends WaitOptions {
  /** The names of the weights to save. Defaults to all weights in the store. */
  names?: Iterable<string>;
}

/** Options of `restoreWeights`. */
export interface RestoreWeightsOptions extends WaitOptions {
  /** The devices that weights may go to, such as `cuda.devices`: each to the one that it was on, or else to the first. */
  devices?: readonly CudaDevice[];
}

/** What `saveWeights` and `restoreWeights` have done. */
export interface SavedWeights {
  /** The names of the weights that were saved or restored. Those of several ranks are there once. */
  readonly names: readonly string[];
  /** The weights that could not be, with the reasons. */
  readonly refused: readonly { readonly name: string; readonly error: Error }[];
}

const offloadOptions: KnownOptions<OffloadWeightsOptions> = {
  action: "offload weights",
  names: { to: true, rank: true, timeout: true, signal: true },
};
const saveOptions: KnownOptions<SaveWeightsOptions> = {
  action: "save weights",
  names: { names: true, signal: true },
};
const restoreOptions: KnownOptions<RestoreWeightsOptions> = {
  action: "restore weights",
  names: { devices: true, signal: true },
};
/** The key of the list of tensors in a file's metadata, if the list was stored in memory. */
const manifestKey = "poolpass.tensors";
/** The name of the file that lists what a folder has, and its format. */
const tableName = "table.json", tableFormat = "poolpass weights", tableVersion = 1;
/** The maximum length of a table in bytes. */
const maximumTable = 2 ** 28;

/**
 * Moves weights from their device to host memory that the store keeps, or to a file, and frees their device memory.
 * The next process that maps them with `mapWeights`, or wakes them with `Weights.wake`, brings them back and checks their
 * digest. Until then, they keep their name, revision and generation.
 *
 * In a folder, the file is `NAME@DIGEST.safetensors`, which any program can read. It is complete when it appears, and
 * stays when the weights are brought back.
 *
 * @throws {RangeError} If `to` is neither `"host"` nor an absolute path
 * @throws {SharingError} `in-use` if a process still has the weights mapped after `timeout`, with the processes;
 * `limit-exceeded` if the store may have no more host memory; `not-found` if nothing is published under the name;
 * `not-permitted` if another user has published them; `bad-message` if they go to a file and
 * are not weights, or their tensors are transposed; `peer-gone`
 * @throws {Error} If the file cannot be written
 *
 * @example
 * ```ts ignore
 * await offloadWeights(client, "llama-8b"); // to host memory
 * await offloadWeights(client, "llama-70b", { to: "/nvme/poolpass" });
 * ```
 */
export async function offloadWeights(
  client: StoreClient,
  name: string,
  options: OffloadWeightsOptions = {},
): Promise<void> {
  checkOptions(options, offloadOptions);
  const { to = "host", ...waiting } = options;
  const { signal } = waiting;
  if (to === "host") return await client.offload(name, { ...waiting, to });
  const folder = absolutePath(to, "offload weights to");
  await client.offload(name, {
    ...waiting,
    to: "file",
    move: async ({ buffer, metadata }) => {
      const path = `${folder}/${fileNameOf(name, summaryOfWeights(metadata)?.digest)}`;
      await writeWeights(path, { name, metadata, buffer, signal });
      return path;
    },
  });
}

/** Brings weights back to their device, and checks their digest. The option `move` of the calls that map entries. */
export async function bringBack({ name, metadata, buffer, from, signal, copy }: EntryMove): Promise<void> {
  if (from !== "host") {
    await reading(from, () => readWeights(from, { name, metadata, buffer, signal }));
    return;
  }
  // What is not weights has no digest that could be computed here.
  const summary = summaryOfWeights(metadata);
  if (summary === undefined) return await copy();
  // A list of tensors that lies in the memory arrives with them.
  const early = summary.tensors === undefined ? undefined : await readDescription(name, metadata, buffer);
  const begun = early && new GrowingRevision(early.tensors, buffer, signal);
  try {
    await copy({ onProgress: (byteLength) => begun?.advance(byteLength) });
    const description = early ?? await readDescription(name, metadata, buffer);
    const action = `bring the weights ${JSON.stringify(name)} back`;
    await checkRevision(description, buffer, { signal, action, begun });
  } finally {
    await begun?.settle();
  }
}

/**
 * Saves weights of a store in a folder: each as a safetensors file `NAME@DIGEST.safetensors`, and a table of them as
 * `table.json`, from which `restoreWeights` publishes them again. Weights that are not on their device are brought back
 * first. Each file is complete when it appears, and the table is written last. The parts of several ranks are saved all,
 * or not at all; this process must see their devices.
 *
 * @param folder the absolute path of an existing folder
 * @returns The names that were saved, and what could not be: it is not in the table
 * @throws {RangeError} If the path is not absolute, or a name is not one of weights in the store
 * @throws {Error} If the table cannot be written
 *
 * @example
 * ```ts ignore
 * await saveWeights(client, "/nvme/models");
 * const { names, refused } = await restoreWeights(client, "/nvme/models"); // after a reboot
 * ```
 */
export async function saveWeights(
  client: StoreClient,
  folder: string,
  options: SaveWeightsOptions = {},
): Promise<SavedWeights> {
  checkOptions(options, saveOptions);
  const path = absolutePath(folder, "save weights in");
  const { signal } = options;
  const waiting = signal === undefined ? {} : { signal };
  const entries = (await client.entries()).filter(({ metadata }) => summaryOfWeights(metadata) !== undefined);
  const wanted = options.names === undefined ? undefined : new Set(options.names);
  const unknown = wanted?.difference(new Set(entries.map(({ name }) => name))).values().next().value;
  if (unknown !== undefined) {
    throw new RangeError(`Cannot save ${JSON.stringify(unknown)}: the store has no such weights`);
  }
  const rows: JsonValue[] = [];
  const saved = await forEachName(
    entries.filter(({ name }) => wanted?.has(name) ?? true),
    signal,
    async (name, ranks) => {
      const own: JsonValue[] = [];
      let generation: number | undefined;
      for (const { keep, rank } of ranks) {
        using entry = await client.mapEntry(name, { ...waiting, rank, move: bringBack });
        generation ??= entry.generation;
        if (entry.generation !== generation) throw new Error("it was published again meanwhile; save it again");
        const { metadata, buffer } = entry;
        const file = fileNameOf(name, summaryOfWeights(metadata)?.digest);
        await writeWeights(`${path}/${file}`, { name, metadata, buffer, signal });
        const { uuid } = buffer.device;
        own.push({ name, file, rank, keep, device: uuid, byteLength: buffer.byteLength, metadata: metadata ?? null });
      }
      rows.push(...own);
    },
  );
  const table = new TextEncoder().encode(
    JSON.stringify({ format: tableFormat, version: tableVersion, entries: rows }, undefined, 2),
  );
  await writeNewFile(`${path}/${tableName}`, (file) => writeFully(file, table, 0));
  return saved;
}

/**
 * Publishes the weights that `saveWeights` has saved in a folder, under their names. Each is checked: a file that is cut
 * or changed is refused, and the others are published. A name that is published already becomes a new generation. The
 * parts of several ranks become visible together; if one is refused, all are.
 *
 * @param folder the absolute path of the folder
 * @returns The names that were published, and what was refused
 * @throws {RangeError} If the path is not absolute
 * @throws {Error} If the table cannot be read
 */
export async function restoreWeights(
  client: StoreClient,
  folder: string,
  options: RestoreWeightsOptions = {},
): Promise<SavedWeights> {
  checkOptions(options, restoreOptions);
  const path = absolutePath(folder, "restore weights of");
  const { devices = [], signal } = options;
  const waiting = signal === undefined ? {} : { signal };
  return await forEachName(await readTable(`${path}/${tableName}`), signal, async (name, ranks) => {
    checkRanks(ranks);
    await using memories = new AsyncDisposableStack();
    const set = crypto.randomUUID();
    const publications: (() => Promise<unknown>)[] = [];
    for (const { file, byteLength, metadata, keep, rank, device: uuid } of ranks) {
      const device = devices.find((device) => device.uuid === uuid) ?? devices[0];
      const memory = memories.use(
        await client.create(name, byteLength, { ...waiting, rank, set, ...device === undefined ? {} : { device } }),
      );
      const { buffer } = memory;
      const { digest, tensors } = await reading(
        file,
        () => readWeights(`${path}/${file}`, { name, metadata, buffer, signal }),
      );
      const stated = digest === undefined
        ? {}
        : { digest, share: await sharingOf({ metadata, buffer, tensors, digest }, signal) };
      publications.push(() => memory.publish({ ...waiting, metadata, keep, ...stated }));
    }
    await Promise.all(publications.map((publish) => publish()));
  });
}

/**
 * Returns the weights that `saveWeights` has saved in a folder as entries for the option `saved` of a store, without
 * reading their tensors. What is cut, or lacks ranks, is refused.
 *
 * @throws {Error} If the table cannot be read
 */
export async function savedEntries(
  folder: string,
  devices: readonly CudaDevice[],
): Promise<{ readonly entries: readonly SavedEntry[]; readonly refused: SavedWeights["refused"] }> {
  const path = absolutePath(folder, "restore weights of");
  const entries: SavedEntry[] = [];
  const { refused } = await forEachName(await readTable(`${path}/${tableName}`), undefined, async (_name, ranks) => {
    checkRanks(ranks);
    const own: SavedEntry[] = [];
    for (const { file, device: uuid, metadata, ...row } of ranks) {
      await reading(file, async () => {
        await using source = await openSource(`${path}/${file}`);
        const { tensors } = await readSafetensorsHeader(source);
        const listed = summaryOfWeights(metadata)?.tensors ?? tensors.length;
        if (tensors.length !== listed) throw new Error(`it has ${tensors.length} tensors, and the weights ${listed}`);
      });
      if (!Number.isSafeInteger(row.byteLength) || row.byteLength < 1) {
        throw new Error(`the table says that it has ${row.byteLength} bytes`);
      }
      const { digest = "" } = summaryOfWeights(metadata) ?? {};
      const device = devices.find((device) => device.uuid === uuid) ?? devices[0]!;
      own.push({ ...row, path: `${path}/${file}`, device, metadata, ...isDigest(digest) ? { digest } : {} });
    }
    entries.push(...own);
  });
  return { entries, refused };
}

function checkRanks(ranks: readonly TableRow[]): void {
  const [, count] = ranks[0]!.rank;
  if (ranks.length !== count) throw new Error(`the table has ${ranks.length} of its ${count} ranks`);
}

/**
 * Calls `act` for each name of weights, with the parts of its ranks. If it fails for one name, it is still called for the
 * others.
 */
async function forEachName<Part extends { readonly name: string }>(
  all: readonly Part[],
  signal: AbortSignal | undefined,
  act: (name: string, ranks: readonly Part[]) => Promise<void>,
): Promise<SavedWeights> {
  const names: string[] = [];
  const refused: { name: string; error: Error }[] = [];
  for (const [name, ranks] of Map.groupBy(all, ({ name }) => name)) {
    throwIfAborted(signal, "the weights of a folder");
    try {
      await act(name, ranks);
      names.push(name);
    } catch (error) {
      throwIfAborted(signal, "the weights of a folder");
      if (!(error instanceof Error)) throw error;
      refused.push({ name, error });
    }
  }
  return { names, refused };
}

/** The memory of an entry whose weights are written to a file, or read from one. */
interface WeightsMemory {
  readonly name: string;
  readonly metadata: JsonValue | undefined;
  readonly buffer: DeviceBuffer;
  readonly signal: AbortSignal | undefined;
}

/** Writes the tensors in an entry's memory to a safetensors file. */
async function writeWeights(path: string, { name, metadata, buffer, signal }: WeightsMemory): Promise<void> {
  const { tensors } = await readDescription(name, metadata, buffer);
  const place = manifestOf(metadata, buffer);
  const more: Record<string, string> = { format: "pt" };
  if (place !== undefined) {
    const bytes = await buffer.subarray(place.byteOffset, place.byteOffset + place.byteLength).read(Uint8Array);
    more[manifestKey] = new TextDecoder().decode(bytes);
  }
  const arrays = new Map(tensors.map((tensor) => [tensor.name, arrayOf(tensor, buffer)]));
  await writeSafetensors(arrays, path, { metadata: more, ...signal === undefined ? {} : { signal } });
}

/**
 * Reads a file that `writeWeights` has written into an entry's memory, each tensor to its place. Throws unless the
 * tensors have the digest that the metadata state.
 */
async function readWeights(
  path: string,
  { name, metadata, buffer, signal }: WeightsMemory,
): Promise<WeightsDescription> {
  await using source: ByteSource = await openSource(path);
  const header = await readSafetensorsHeader(source);
  const place = manifestOf(metadata, buffer);
  if (place !== undefined) {
    const list = new TextEncoder().encode(header.metadata.get(manifestKey) ?? "");
    if (list.length !== place.byteLength) {
      throw new Error("it lacks the list of its tensors that its publisher has made");
    }
    buffer.subarray(place.byteOffset).copyFrom(list);
    await buffer.stream.finished();
  }
  const description = await readDescription(name, metadata, buffer);
  const { tensors } = description;
  const places = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const ranges = header.tensors.map(({ name, dtype, byteOffset, byteLength }) => {
    const tensor = places.get(name);
    if (tensor?.dtype !== dtype || tensor.byteLength !== byteLength) {
      throw new Error(`its tensor ${JSON.stringify(name)} is not that of the weights`);
    }
    const fileOffset = header.dataOffset + byteOffset;
    return { source, fileOffset, byteLength, buffer, byteOffset: tensor.byteOffset };
  });
  if (ranges.length !== tensors.length) {
    throw new Error(`it has ${ranges.length} tensors, and the weights ${tensors.length}`);
  }
  await readRanges(ranges, { what: `the read of "${path}"`, ...signal === undefined ? {} : { signal } });
  await checkRevision(description, buffer, { signal, action: `bring the weights ${JSON.stringify(name)} back` });
  return description;
}

/** A row of a folder's table. */
interface TableRow {
  readonly name: string;
  readonly file: string;
  readonly rank: readonly [rank: number, count: number];
  readonly keep: boolean;
  readonly device: string;
  readonly byteLength: number;
  readonly metadata: JsonValue;
}

async function readTable(path: string): Promise<readonly TableRow[]> {
  return await reading(path, async () => {
    await using source = await openSource(path);
    if (source.byteLength > maximumTable) throw new Error(`it has ${source.byteLength} bytes`);
    const table = JSON.parse(new TextDecoder().decode(await bytesAt(source, 0, source.byteLength))) as JsonValue;
    const isTable = isObject(table) && table.format === tableFormat && table.version === tableVersion;
    if (!isTable || !Array.isArray(table.entries)) throw new Error("it is not a table of weights");
    return table.entries.map((row: JsonValue): TableRow => {
      if (!isObject(row)) throw new Error("a row is not an object");
      const { name, file, rank = [0, 1], keep, device, byteLength, metadata = null } = row;
      const isPlain = typeof file === "string" && !/[/\0]/.test(file) && !file.startsWith(".");
      const isRank = isListOfCounts(rank) && rank.length === 2;
      if (
        typeof name !== "string" || !isPlain || !isRank || typeof device !== "string" || typeof byteLength !== "number"
      ) throw new Error("a row does not say which file has which weights");
      return { name, file, rank: [rank[0]!, rank[1]!], keep: keep === true, device, byteLength, metadata };
    });
  });
}

/** Returns the name of the file of weights. What a file's name cannot have is written as in URLs. */
function fileNameOf(name: string, digest: string | undefined): string {
  return `${encodeURIComponent(name).replace(/^\./, "%2E")}@${digest ?? "unknown"}.safetensors`;
}

function absolutePath(path: string, action: string): string {
  if (typeof path !== "string") throw new TypeError(`Cannot ${action} ${whatIs(path)}: give an absolute path`);
  if (!path.startsWith("/")) throw new RangeError(`Cannot ${action} ${JSON.stringify(path)}: give an absolute path`);
  return path.replace(/\/+$/, "");
}
