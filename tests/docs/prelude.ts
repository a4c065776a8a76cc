/**
 * Variables for code blocks that begin in the middle of a program: a reader knows them from the pages before.
 *
 * @module
 */
import type { StoreClient } from "../../mod.ts";
import type { Weights } from "../../weights.ts";
import {
  type AddressRange,
  type Cuda,
  type CudaArray,
  type CudaDevice,
  type CudaError,
  type CudaEvent,
  type CudaGraph,
  type CudaGraphExec,
  type CudaKernel,
  type CudaModule,
  type CudaStream,
  type DeviceArray,
  type DeviceBuffer,
  type Exporter,
  type GraphCapture,
  type HostBuffer,
  type ImportedMemoryPool,
  type Importer,
  type MemoryPool,
  open,
  type PhysicalMemory,
  type PitchedArray,
  type ShareableHandle,
  type UnixSocket,
} from "../../mod.ts";
import { ptx } from "../../kernels/fill.ts";

export { ptx } from "../../kernels/fill.ts";

export const cuda: Cuda = open();
export const gpu: CudaDevice = cuda.device(0);
export const stream: CudaStream = gpu.createStream();
export const pool: MemoryPool = gpu.createPool({ handleType: "posix-fd" });
export const buffer: DeviceBuffer = pool.allocate(2 ** 20, stream);
export const kernel: CudaKernel = gpu.loadModule(ptx).kernel("fill");
/** Frees what the fragment has not: nothing is left for the sanitizer to report. */
export function end(): void {
  buffer[Symbol.dispose]();
}

export const grid = 4;
export const block = 256;

// These need another process. A block that uses one is type-checked but not run.
export declare const exporter: Exporter;
export declare const importer: Importer;
export declare const socket: UnixSocket;
export declare const imported: ImportedMemoryPool;
export declare const handle: ShareableHandle;
export declare const bytes: Uint8Array<ArrayBuffer>;

// These are used in tables, which are type-checked but not run.
export declare const peer: CudaDevice;
export declare const rows: PitchedArray<Float32Array>;
export declare const texels: CudaArray;
export declare const event: CudaEvent;
export declare const start: CudaEvent;
export declare const other: CudaStream;
export declare const graph: CudaGraph;
export declare const exec: CudaGraphExec<{ a: number; array: typeof array }>;
export declare const capture: GraphCapture;
export declare const array: DeviceArray<Float32Array>;
export declare const host: HostBuffer;
export declare const managed: DeviceBuffer;
export declare const range: AddressRange;
export declare const memory: PhysicalMemory;
export declare const more: PhysicalMemory;
export declare const byteLength: number;
export declare const module: CudaModule;
export declare const source: string;
export declare const data: Float32Array<ArrayBuffer>;
export declare const image: Uint8Array<ArrayBuffer>;
export declare const error: CudaError;
export declare const client: StoreClient;
export declare const held: Weights;
export declare function load(): Promise<Uint8Array>;
