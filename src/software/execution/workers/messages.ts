/**
 * What the main thread and its worker threads send each other, besides what they share in memory.
 *
 * @module
 */
import type { LocatedFault } from "../faults/kernel_fault.ts";
import type { GangProperties } from "../modules/kernel_versions.ts";
import type { BlockProperties } from "../modules/module_loader.ts";

/** The part of `node:worker_threads` that the software device uses. */
export interface WorkerThreads {
  readonly Worker: new (
    source: string,
    options: { eval: true; workerData: WorkerData; transferList: readonly WorkerPort[]; stderr?: boolean },
  ) => WorkerThread;
  readonly MessageChannel: new () => { readonly port1: WorkerPort; readonly port2: WorkerPort };
  readonly workerData: WorkerData;
  receiveMessageOnPort(port: WorkerPort): { readonly message: unknown } | undefined;
}

/**
 * The maximum number of workers that a worker starts. In Deno, a worker that another one starts waits half a second for a
 * debugger, as all of them do at the same time, and starting it takes about 50 ms. Few levels are ready sooner.
 */
export const mostStarted = 4;

/** A worker thread. */
interface WorkerThread {
  on(event: "error", callback: (error: unknown) => void): void;
  unref(): void;
}

/** One end of a channel between two threads. */
export interface WorkerPort {
  postMessage(message: ToWorker | FromWorker): void;
  unref?(): void;
}

/** What a worker gets when it starts. */
export interface WorkerData {
  /** The program of all workers. */
  readonly source: string;
  /**
   * The number of the worker, counted from 0. It starts up to `mostStarted` others, from `mostStarted * index + 1` on.
   */
  readonly index: number;
  /** The channels of the worker and of all workers that it starts, directly or not, by their numbers. */
  readonly ports: ReadonlyMap<number, WorkerPort>;
  readonly board: SharedArrayBuffer;
  readonly progress: SharedArrayBuffer;
  readonly memory: WebAssembly.Memory;
  /** The number of address spaces that copies of the library took before the one that started the workers. */
  readonly addressSpace: number;
  /** The `performance.timeOrigin` of the main thread. */
  readonly timeOrigin: number;
}

/** A kernel that a worker can run. */
export interface SentKernel {
  readonly kind: "kernel";
  /** The number by which jobs name the kernel. */
  readonly number: number;
  readonly code: WebAssembly.Module;
  /** The range of the module's variables in linear memory. */
  readonly image: { readonly begin: number; readonly byteLength: number };
  readonly compiled: BlockProperties;
  readonly gang: { readonly code: WebAssembly.Module; readonly compiled: GangProperties } | undefined;
  readonly stepLimit: number;
}

/** A message to a worker. */
export type ToWorker = SentKernel | { readonly kind: "forget"; readonly number: number };

/** A message from a worker: a block of a job has faulted, or could not run. */
export interface FromWorker {
  readonly job: number;
  readonly block: number;
  /** Where the block faulted, or the message of another error. */
  readonly fault: LocatedFault | string;
  /** Whether the block has not faulted, but waited when another one did. */
  readonly isBeside?: boolean;
}

/** Loads `node:worker_threads`, which needs no permission. Undefined if the runtime does not have it. */
export function workerThreads(): WorkerThreads | undefined {
  const { process } = globalThis as unknown as { process?: { getBuiltinModule?(name: string): unknown } };
  return process?.getBuiltinModule?.("node:worker_threads") as WorkerThreads | undefined;
}
