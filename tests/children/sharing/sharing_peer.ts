/**
 * Offers memory and uses offers as the test asks: node tests/children/sharing/sharing_peer.ts DRIVER PATH. PATH is a
 * socket from which calls come. With DRIVER "open", the environment selects the driver. Objects are kept under names
 * that the caller chooses.
 *
 * @module
 */
import { unlinkSync } from "node:fs";
import process from "node:process";
import { Cuda } from "../../../src/objects/cuda.ts";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";
import type { Driver } from "../../../src/driver.ts";
import type { ImportedMemoryPool } from "../../../src/memory/handles/imported_memory_pool.ts";
import type { MemoryPool } from "../../../src/memory/pools/memory_pool.ts";
import { open } from "../../../src/open.ts";
import { Session } from "../../../src/session.ts";
import { encodeMessage } from "../../../src/sharing/protocol/encode_message.ts";
import { Exporter, type ExporterOptions } from "../../../src/sharing/exporter/exporter.ts";
import { Importer, type ImporterOptions } from "../../../src/sharing/importer/importer.ts";
import type { JsonValue } from "../../../src/sharing/protocol/metadata.ts";
import type { RemoteOffer } from "../../../src/sharing/importer/remote_offer.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { parseUuid } from "../../../src/support/uuid.ts";
import { loadDriver } from "../../conformance/load_driver.ts";
import { watchedDriver } from "../../support/adapted_driver.ts";
import { Gate } from "../../support/gate.ts";
import { receiveMessage, sendMessage } from "../../support/software_messages.ts";
import { startHolder } from "./sharing_holder.ts";
import { StampKernels } from "./stamp_kernels.ts";

/** An error, as it is sent to the caller. */
export interface PeerFailure {
  readonly name: string;
  readonly code: string | undefined;
  readonly message: string;
}

/** The number of calls of each method of the driver. */
const counts: Record<string, number> = {};
const [driverName, controlPath] = process.argv.slice(2) as [string, string];
const cuda = await openDevices();
const gpu = cuda.device(0);
const gate = new Gate(cuda);
const stream = gpu.createStream({ nonBlocking: true });
const importers = new Map<string, Importer>();
const offers = new Map<string, RemoteOffer>();
const buffers = new Map<string, DeviceBuffer>();
const pools = new Map<string, ImportedMemoryPool>();
const sockets: UnixSocket[] = [];
const ballast: DeviceBuffer[] = [];
let own: { readonly pool: MemoryPool; readonly exporter: Exporter } | undefined;

const calls = {
  // Calls of an importer.

  async connect(as: string, path: string, options: ImporterOptions = {}): Promise<void> {
    importers.set(as, await Importer.connect(cuda, path, options));
  },

  /** Returns the names and metadata of the next offers. */
  async offers(as: string, count: number): Promise<[string, JsonValue | undefined][]> {
    const seen: [string, JsonValue | undefined][] = [];
    for await (const { name, metadata } of importers.get(as)!.offers()) {
      seen.push([name, metadata]);
      if (seen.length === count) break;
    }
    return seen;
  },

  async offer(as: string, name: string): Promise<Pick<RemoteOffer, "kind" | "byteLength" | "metadata">> {
    const { kind, byteLength, metadata } = await importers.get(as)!.offer(name);
    return { kind, byteLength, metadata };
  },

  /** Maps an offer and keeps the buffer, by default under the offer's name. */
  async map(as: string, name: string, into: string = name): Promise<void> {
    const offer = await importers.get(as)!.offer(name);
    offers.set(into, offer);
    buffers.set(into, await offer.map({ stream }));
  },

  /** Maps offers whose names are a prefix and a number. Whether each one begins with its number modulo 256. */
  async mapMany(as: string, prefix: string, count: number): Promise<boolean> {
    let isRight = true;
    for (let index = 0; index < count; index++) {
      const offer = await importers.get(as)!.offer(`${prefix}${index}`);
      const buffer = await offer.map({ stream });
      buffers.set(offer.name, buffer);
      if (index % 100 === 0) isRight &&= (await buffer.read(Uint8Array))[0] === (index & 255);
    }
    return isRight;
  },

  async importPool(as: string, name: string, into: string, exportData: string, byteLength: number): Promise<void> {
    const pool = (await importers.get(as)!.offer(name)).importPool();
    pools.set(name, pool);
    buffers.set(into, pool.importPointer(Uint8Array.fromHex(exportData), byteLength));
  },

  disposePool(name: string): void {
    pools.get(name)![Symbol.dispose]();
  },

  read(name: string, byteOffset: number, length: number): Promise<Uint8Array> {
    return buffers.get(name)!.read(Uint8Array, { byteOffset, length });
  },

  /** Prepares a copy of a buffer, in stream order, into this process's own memory. The next `hold` enqueues it. */
  copy(name: string, into: string): void {
    const source = buffers.get(name)!;
    const target = gpu.allocate(source.byteLength);
    buffers.set(into, target);
    copies.push(() => target.copyFrom(source, stream));
  },

  free(...names: string[]): void {
    for (const name of names) {
      buffers.get(name)!.free();
      buffers.delete(name);
    }
  },

  freeMany(prefix: string, count: number): void {
    for (let index = 0; index < count; index++) calls.free(`${prefix}${index}`);
  },

  /** Resolves with the code of the reason with which a mapped offer's `recalled` signal is aborted. */
  async recalled(name: string): Promise<string> {
    const { recalled } = offers.get(name)!;
    if (!recalled.aborted) await new Promise((resolve) => recalled.addEventListener("abort", resolve));
    return recalled.reason.code;
  },

  /** Whether an aborted wait rejects with the reason. */
  async aborts(wait: "connect" | "offer" | "drained offers" | "map", as: string, name: string): Promise<boolean> {
    const controller = new AbortController();
    const { signal } = controller;
    const reason = { enough: true };
    const importer = importers.get(as)!;
    const waits = {
      connect: () => Importer.connect(cuda, name, { signal }),
      offer: () => importer.offer(name, { signal }),
      "drained offers": async () => {
        for await (const _ of importer.offers({ signal }));
      },
      map: async () => (await importer.offer(name)).map({ signal }),
    };
    const pending: Promise<unknown> = waits[wait]();
    setTimeout(() => controller.abort(reason), 5);
    return await pending.then(() => false, (error) => error === reason);
  },

  isConnected(as: string): boolean {
    return importers.get(as)!.isConnected;
  },

  async close(as: string): Promise<void> {
    await importers.get(as)![Symbol.asyncDispose]();
  },

  /** Allocates all memory of the device. */
  exhaust(): void {
    for (let byteLength = 2 ** 31; byteLength >= 65536;) {
      try {
        ballast.push(gpu.allocate(byteLength));
      } catch {
        byteLength /= 2;
      }
    }
  },

  recover(): void {
    for (const buffer of ballast.splice(0)) buffer.free();
  },

  // Calls of an exporter.

  listen(path: string, options: ExporterOptions = {}): void {
    own = { pool: gpu.createPool({ handleType: "posix-fd" }), exporter: Exporter.listen(path, options) };
  },

  /** Allocates a buffer of the pool, or of virtual memory, fills it on the stream, and offers it. */
  export(name: string, byteLength: number, byte: number, from: "pool" | "virtual memory" = "pool"): void {
    const buffer = from === "pool"
      ? own!.pool.allocate(byteLength, stream)
      : gpu.allocate(byteLength, { handleType: "posix-fd" });
    buffer.stream = stream;
    buffer.fill(byte);
    buffers.set(name, buffer);
    own!.exporter.offer(name, buffer);
  },

  leases(): [string, string][] {
    return own!.exporter.leases.map(({ name, state }) => [name, state]);
  },

  async closeExporter(): Promise<void> {
    await own!.exporter[Symbol.asyncDispose]();
  },

  // Calls about the stream.

  /** Holds the stream and enqueues the prepared copies. */
  hold(): void {
    gate.hold(stream);
    for (const copy of copies.splice(0)) copy();
  },

  release(): void {
    gate.open();
  },

  /** Loses the device of this process. */
  fail(): void {
    gate.fail(stream);
  },

  async finished(): Promise<void> {
    await stream.finished();
  },

  /** Writes to the beginning of two buffers without pause, for some milliseconds from when the kernels start. */
  stamp(first: string, second: string, milliseconds: number): void {
    new StampKernels(cuda).stamp(stream, [buffers.get(first)!, buffers.get(second)!], milliseconds);
  },

  // Other calls.

  disposeCuda(): void {
    cuda[Symbol.dispose]();
  },

  /** Returns how often the driver was called to import pools and pointers. */
  imports(): [number, number] {
    return [counts.memPoolImportFromShareableHandle ?? 0, counts.memPoolImportPointer ?? 0];
  },

  /** Connects, sends bytes, and stays connected. */
  async say(path: string, bytes: Uint8Array): Promise<void> {
    const socket = await UnixSocket.connect(path);
    sockets.push(socket);
    await socket.send(bytes);
  },

  /** Replaces a socket's file and sends bytes to every peer that connects. */
  usurp(path: string, bytes: Uint8Array): void {
    unlinkSync(path);
    const listener = UnixListener.listen(path);
    void (async () => {
      for (;;) {
        const socket = await listener.accept();
        sockets.push(socket);
        await socket.send(bytes);
      }
    })();
  },

  /** Starts a process that inherits all descriptors of this one. Returns its process id. */
  startHolder(): number {
    return startHolder();
  },

  /**
   * Listens, and sends wrong messages about memory to the peer that connects: a length that the memory does not have,
   * and a pointer of another pool. A correct offer comes with them.
   */
  lie(path: string): void {
    const [pool, other] = [0, 1].map(() => gpu.createPool({ handleType: "posix-fd" })) as [MemoryPool, MemoryPool];
    const [handle, _otherHandle] = [pool.exportHandle(), other.exportHandle()];
    const [honest, small, foreign] = [pool, pool, other].map((each) => each.allocate(4096, stream));
    honest!.fill(7);
    stream.synchronize();
    const deviceUuid = parseUuid(gpu.uuid);
    const tooLong = 2 ** 40;
    const lies = [["honest", honest!, 4096], ["long", small!, tooLong], ["foreign", foreign!, 4096]] as const;
    const parts = [
      encodeMessage({ type: "welcome", version: 1 }),
      ...lies.flatMap(([name, buffer, byteLength], index) => [
        encodeMessage({
          type: "allocation",
          allocation: index + 1,
          pool: 1,
          byteLength,
          exportData: buffer.exportPointer(),
        }),
        encodeMessage({
          type: "offer",
          offer: index + 1,
          kind: "buffer",
          allocation: index + 1,
          pool: 1,
          byteOffset: 0,
          byteLength,
          readyEvent: 0,
          name,
          metadata: "",
        }),
      ]),
    ] as const;
    const listener = UnixListener.listen(path);
    void (async () => {
      const socket = await listener.accept();
      sockets.push(socket);
      await socket.send(parts[0]!);
      await socket.send(encodeMessage({ type: "pool", pool: 1, kind: "device", deviceUuid, handle }), {
        handles: [handle],
      });
      for (const part of parts.slice(1)) await socket.send(part);
    })();
  },
};

/** The calls that a test can make. */
export type PeerCalls = typeof calls;

/** Copies that the next `hold` enqueues. */
const copies: (() => void)[] = [];
/** Sends answers one after the other. */
let answered: Promise<void> = Promise.resolve();
const control = await UnixSocket.connect(controlPath);
for (;;) {
  const message = await receiveMessage(control) as { number: number; name: keyof PeerCalls; args: never[] } | undefined;
  if (message === undefined) break;
  void answer(message);
}
process.exit();

async function answer({ number, name, args }: { number: number; name: keyof PeerCalls; args: never[] }): Promise<void> {
  let result: unknown;
  let failure: PeerFailure | undefined;
  try {
    result = await (calls[name] as (...args: never[]) => unknown)(...args);
  } catch (error) {
    const { name, code, message } = error as PeerFailure;
    failure = { name, code, message };
  }
  answered = answered.then(() => sendMessage(control, { number, result, failure }));
}

async function openDevices(): Promise<Cuda> {
  if (driverName === "open") return open();
  const driver = (await loadDriver(driverName))();
  return new Cuda(new Session(counted(driver)));
}

function counted(driver: Driver): Driver {
  return watchedDriver(driver, (name) => counts[name] = (counts[name] ?? 0) + 1);
}
