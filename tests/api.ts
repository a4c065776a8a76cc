// The public vocabulary of mod.ts, as declarations. These names and shapes are fixed: scripts, guides and other
// people's tests rely on them. More may be added beside them; sharing's high level is named by the issue that builds it.
// An omitted stream means the device's default stream for allocate and launch (a host pool's allocate needs one:
// TypeError), and the buffer's own for buffer methods. Constructors are no part of the vocabulary.

/** Number of blocks or threads in each dimension. */
export type Dim3 = number | readonly [x: number, y?: number, z?: number];
/** Type of one kernel parameter: scalars by PTX name, aggregates by size and alignment in bytes. */
export type ParameterType =
  | "b8"
  | "b16"
  | "b32"
  | "b64"
  | "u8"
  | "u16"
  | "u32"
  | "u64"
  | "s8"
  | "s16"
  | "s32"
  | "s64"
  | "f16"
  | "f32"
  | "f64"
  | { readonly byteLength: number; readonly alignment: number };
/** Anything with an address for a pointer; a scalar; a view for an aggregate, of exactly its size. */
export type KernelArgument = { readonly address: bigint } | number | bigint | boolean | ArrayBufferView;
export type TypedArray =
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Float16Array
  | Int32Array
  | Uint32Array
  | Float32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array;
export interface TypedArrayConstructor<T extends TypedArray> {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBuffer, byteOffset?: number, length?: number): T;
}

declare const kernels: unique symbol;
/** PTX whose kernels' parameters TypeScript knows: what `poolpass bind` writes. A string at run time. */
export type Ptx<Kernels extends { [Name in keyof Kernels]: readonly KernelArgument[] }> = string & {
  readonly [kernels]: Kernels;
};
/** The kernels of a module that TypeScript knows nothing of. */
export interface AnyKernels {
  readonly [name: string]: readonly KernelArgument[];
}
/** A parameter that is a pointer. */
export type Pointer<T extends TypedArray = TypedArray> =
  | { readonly address: bigint; readonly type?: TypedArrayConstructor<T> }
  | bigint;

/** A scalar, an array of them, or another struct. */
// deno-lint-ignore no-explicit-any
export type FieldType = Exclude<ParameterType, object> | Struct<any>;
/** `struct({ x: "f32", n: "s32" })`: a C struct, laid out as C++ does; call it with values to get a launch argument. */
export declare function struct<Fields extends Record<string, FieldType | readonly [FieldType, number]>>(
  fields: Fields,
): Struct<Fields>;
export type FieldValue = number | bigint | boolean | { readonly [name: string]: FieldValue } | readonly FieldValue[];
export interface Struct<Fields> {
  (values: { readonly [name in keyof Fields]: FieldValue }): StructValue<Fields>;
  readonly byteLength: number;
  readonly alignment: number;
}
// deno-lint-ignore no-explicit-any
export interface StructValue<Fields = any> extends StructArgument<Fields> {
  readonly alignment: number;
}
declare const structType: unique symbol;
/** A parameter that is a struct. */
export interface StructArgument<Fields> extends ArrayBufferView {
  readonly [structType]?: Struct<Fields>;
}

export interface OpenOptions {
  /** "auto" (the default) takes a GPU where there is one, else the software device. */
  driver?: "auto" | "cuda" | "software";
  /** Path of libcudart, where the usual names do not find it. */
  cudart?: string;
  /** Devices that the software driver shows; 2 unless set here or in POOLPASS_SOFTWARE_DEVICES. */
  softwareDevices?: number;
  /** Path of libnvrtc, where the usual names do not find it; else POOLPASS_NVRTC. */
  nvrtc?: string;
  /** Folder of compiled PTX; none unless given here or in POOLPASS_CACHE. */
  compileCache?: string;
  /** Which checks to make; true for all. Else what POOLPASS_SANITIZE names ("1", or names with commas). */
  sanitize?: boolean | readonly SanitizerCheck[];
  /** The order in which the software device runs what may run; else POOLPASS_SOFTWARE_SCHEDULE. */
  softwareSchedule?: "oldest" | "newest" | "random" | `random:${number}`;
  /** Gets every report; otherwise each is printed, and disposing of the Cuda object throws a SanitizerError. */
  onReport?: (report: SanitizerReport) => void;
}
export interface CompileOptions {
  /** The name that messages call the source by; "kernel.cu" unless given. */
  name?: string;
  /** Headers by the name that `#include` uses. */
  headers?: Readonly<Record<string, string>>;
  includePaths?: readonly string[];
  defines?: Readonly<Record<string, string | number | boolean>>;
  /** "compute_90"; the device's own unless given. */
  architecture?: string;
  /** False keeps every mul and add apart (-fmad=false); true unless given. */
  fusedMultiplyAdd?: boolean;
  /** Source lines in the PTX (-lineinfo); true unless given: reports and faults name them. */
  lineInfo?: boolean;
  debug?: boolean;
  /** C++ names, templates among them: `module.kernel("scale<float>")` then finds them. */
  nameExpressions?: readonly string[];
  /** Passed to the compiler as they are. */
  flags?: readonly string[];
}
export interface CompiledProgram {
  readonly ptx: string;
  /** Warnings; empty where there are none. */
  readonly log: string;
  /** "nvrtc", "nvcc" or "clang", with its version. */
  readonly compiler: string;
}
export interface PoolOptions {
  handleType?: "none" | "posix-fd" | "fabric";
  /** Bytes; 0 or omitted: the system's own limit. */
  maxSize?: number;
  /** Bytes that the pool keeps reserved at a synchronisation; Infinity keeps all. */
  releaseThreshold?: number;
}
export interface CachingAllocatorOptions {
  /** Bytes that it takes from its pool at a time, more where a buffer needs more; 32 MiB unless given. */
  slabByteLength?: number;
  /** Bytes that it may hold of its pool; 0 or omitted: the pool's own limit. */
  maxSize?: number;
  /** Bytes that it keeps unused; Infinity unless given. */
  maxUnused?: number;
}
/** Where to allocate, and what ends the wait. */
export interface AllocateAsyncOptions extends WaitOptions {
  stream?: CudaStream;
}
export interface WaitOptions {
  signal?: AbortSignal;
}
/**
 * byteOffset: where in the buffer whose method is called, never in the other. All of the source from there on is copied;
 * a target too small is a RangeError; use subarray for parts.
 */
export interface CopyOptions {
  byteOffset?: number;
}
export interface FillOptions extends CopyOptions {
  byteLength?: number;
  begin?: number;
  end?: number;
}
/** length: elements of the type asked for; the rest of the buffer unless given. */
export interface ReadOptions extends WaitOptions {
  stream?: CudaStream;
  byteOffset?: number;
  length?: number;
}
export interface WrapOptions {
  stream?: CudaStream;
}
export interface PhysicalMemoryOptions {
  handleType?: "none" | "posix-fd" | "fabric";
}
export interface ReserveOptions {
  alignment?: number;
}
export interface MapMemoryOptions {
  /** Where in the range; behind all that is mapped unless given. */
  byteOffset?: number;
  access?: "read" | "read-write";
  /** The memory's own unless given. */
  devices?: CudaDevice | readonly CudaDevice[];
}
export interface RangePart {
  byteOffset?: number;
  byteLength?: number;
}
/** Counts of calls; by default as many as take about 100 ms, after about 25 ms. */
export interface BenchmarkOptions extends WaitOptions {
  repetitions?: number;
  warmUps?: number;
  /** Overwrites the L2 cache before each call; true unless given. */
  flushCache?: boolean;
}
/** Milliseconds of the GPU. */
export interface BenchmarkResult {
  readonly median: number;
  readonly lowerQuartile: number;
  readonly upperQuartile: number;
  readonly minimum: number;
  readonly maximum: number;
  readonly mean: number;
  readonly samples: Float64Array<ArrayBuffer>;
}
export interface LaunchOptions {
  grid: Dim3;
  block: Dim3;
  stream?: CudaStream;
  sharedMemoryBytes?: number;
  cluster?: Dim3;
  cooperative?: boolean;
  priority?: number;
  programmaticStreamSerialization?: boolean;
}
export interface KernelAttributes {
  readonly registers: number;
  readonly sharedMemoryBytes: number;
  readonly localMemoryBytes: number;
  readonly constantMemoryBytes: number;
  readonly maxThreadsPerBlock: number;
  readonly ptxVersion: number;
  readonly binaryVersion: number;
}
export type CacheConfig = "none" | "shared" | "l1" | "equal";
export type SharedMemoryCarveout = number | "default" | "max-l1" | "max-shared";
export interface PotentialBlockSizeOptions {
  sharedMemoryBytes?: number;
  blockSizeLimit?: number;
}
export interface ActiveClustersOptions {
  block: Dim3;
  cluster: Dim3;
  sharedMemoryBytes?: number;
}
/** name: what errors call the image. */
export interface LinkImage {
  name: string;
  image: string | Uint8Array;
}
export interface LoadModuleOptions {
  maxRegisters?: number;
  optimizationLevel?: number;
  lineInfo?: boolean;
  debug?: boolean;
  verbose?: boolean;
}
export type Access = "none" | "read" | "read-write";

/** The version of poolpass, such as "0.1.0". */
export declare const version: string;

export declare function open(options?: OpenOptions): Cuda;

export declare class Cuda implements Disposable {
  readonly driver: "cuda" | "software";
  /** 13000 for CUDA 13.0. */
  readonly driverVersion: number;
  /** Undefined where no usable libcudart was found. */
  readonly runtimeVersion: number | undefined;
  readonly devices: readonly CudaDevice[];
  device(ordinalOrUuid: number | string): CudaDevice;
  /** Page-locked host memory. */
  allocateHost(byteLength: number): HostBuffer;
  /** CUDA C++ to PTX text. */
  compile(source: string, options: CompileOptions & { architecture: string }): CompiledProgram;
  /** A pool in host memory, on one NUMA node or, where the driver takes it, anywhere. */
  createHostPool(options?: PoolOptions & { numaNode?: number }): MemoryPool;
  /** cuMemAddressReserve. */
  reserveAddresses(byteLength: number, options?: ReserveOptions): AddressRange;
  startProfiler(): void;
  stopProfiler(): void;
  /** The profiler until the result is disposed. */
  profile(): Disposable;
  [Symbol.dispose](): void;
}

export declare class CudaDevice {
  readonly ordinal: number;
  /** "GPU-14e79943-d9b5-ef5b-1063-3010823d4b49" */
  readonly uuid: string;
  readonly name: string;
  readonly computeCapability: readonly [major: number, minor: number];
  /** Whether its work goes through an MPS server; undefined where the driver cannot say. */
  readonly usesMps: boolean | undefined;
  /** A device attribute under CUDA's name, "multiProcessorCount" for cudaDevAttrMultiProcessorCount. */
  attribute(name: DeviceAttributeName): number;
  memoryInfo(): { free: number; total: number };
  streamPriorityRange(): { least: number; greatest: number };
  readonly defaultStream: CudaStream;
  readonly defaultPool: MemoryPool;
  currentPool: MemoryPool;
  createStream(options?: { priority?: number; nonBlocking?: boolean }): CudaStream;
  createEvent(options?: { timing?: boolean; blockingSync?: boolean; interprocess?: boolean }): CudaEvent;
  createPool(options?: PoolOptions): MemoryPool;
  /** cudaMalloc: not from a pool; what legacy IPC handles need. */
  allocate(byteLength: number): DeviceBuffer;
  /** Memory that somebody else owns, who must keep it; never freed. */
  wrap(address: bigint, byteLength: number, options?: WrapOptions): DeviceBuffer;
  /** A stream that somebody else owns; never destroyed. 0 and 1 are the default stream. */
  wrapStream(handle: bigint): CudaStream;
  loadModule<Kernels extends { [Name in keyof Kernels]: readonly KernelArgument[] } = AnyKernels>(
    image: Ptx<Kernels> | string | Uint8Array,
    options?: LoadModuleOptions,
  ): CudaModule<Kernels>;
  /** CUDA C++ to a loaded module. */
  compile<Kernels extends { [Name in keyof Kernels]: readonly KernelArgument[] } = AnyKernels>(
    source: string,
    options?: CompileOptions,
  ): CudaModule<Kernels>;
  link(images: readonly (string | Uint8Array | LinkImage)[], options?: LoadModuleOptions): CudaModule;
  /** A host pool may be imported through any device. */
  importPool(handle: ShareableHandle): ImportedMemoryPool;
  /** cuMemCreate; the size is rounded up to the granularity. */
  createMemory(byteLength: number, options?: PhysicalMemoryOptions): PhysicalMemory;
  importMemory(handle: ShareableHandle, byteLength: number): PhysicalMemory;
  openEvent(handle: Uint8Array): CudaEvent;
  openMemory(handle: Uint8Array, byteLength: number): DeviceBuffer;
  canAccessPeer(peer: CudaDevice): boolean;
  enablePeerAccess(peer: CudaDevice): void;
  disablePeerAccess(peer: CudaDevice): void;
  synchronize(): void;
  /** Resolves when all work given to the device so far is done; rejects with its CudaError. */
  finished(options?: WaitOptions): Promise<void>;
}

export declare class CudaStream implements Disposable {
  readonly device: CudaDevice;
  readonly unsafeHandle: bigint;
  record(event: CudaEvent): void;
  wait(event: CudaEvent): void;
  /** Whether all work so far is done. */
  query(): boolean;
  synchronize(): void;
  finished(options?: WaitOptions): Promise<void>;
  /** The GPU time of what body enqueues, called again and again. */
  benchmark(body: (stream: CudaStream) => void, options?: BenchmarkOptions): Promise<BenchmarkResult>;
  [Symbol.dispose](): void;
}

export declare class CudaEvent implements Disposable {
  readonly device: CudaDevice;
  readonly unsafeHandle: bigint;
  query(): boolean;
  synchronize(): void;
  finished(options?: WaitOptions): Promise<void>;
  /** Milliseconds from start to this event. */
  elapsedTime(start: CudaEvent): number;
  /** 64 bytes for another process's openEvent. */
  exportHandle(): Uint8Array<ArrayBuffer>;
  [Symbol.dispose](): void;
}

export declare class MemoryPool implements Disposable {
  /** Undefined for a pool in host memory. */
  readonly device: CudaDevice | undefined;
  readonly handleType: "none" | "posix-fd" | "fabric";
  readonly unsafeHandle: bigint;
  allocate(byteLength: number, stream?: CudaStream): DeviceBuffer;
  allocateArray<T extends TypedArray>(
    type: TypedArrayConstructor<T>,
    length: number,
    stream?: CudaStream,
  ): DeviceArray<T>;
  /** Waits for memory that others free; a request above the pool's limit is refused at once. */
  allocateAsync(byteLength: number, options?: AllocateAsyncOptions): Promise<DeviceBuffer>;
  createCachingAllocator(options?: CachingAllocatorOptions): CachingAllocator;
  releaseThreshold: number;
  readonly reuse: { followEventDependencies: boolean; allowOpportunistic: boolean; allowInternalDependencies: boolean };
  /** Bytes. */
  usage(): { reserved: number; reservedHigh: number; used: number; usedHigh: number };
  resetHigh(): void;
  trimTo(byteLength: number): void;
  getAccess(device: CudaDevice): Access;
  setAccess(devices: CudaDevice | readonly CudaDevice[], access: Access): void;
  exportHandle(): ShareableHandle;
  [Symbol.dispose](): void;
}

/** Bytes of an allocator: held of its pool, in use, and how the free ones lie. */
export interface CachingAllocatorUsage {
  reserved: number;
  reservedHigh: number;
  /** Each buffer rounded up to what it takes. */
  used: number;
  usedHigh: number;
  /** Buffers that are not freed. */
  buffers: number;
  slabs: number;
  /** The largest buffer that fits without another slab, once all streams are done. */
  largestFree: number;
  /** From 0, where all free bytes are in one piece, towards 1. */
  fragmentation: number;
}
/** What an allocator has of sizes from a power of two to the next. */
export interface SizeClassUsage {
  minByteLength: number;
  maxByteLength: number;
  buffers: number;
  used: number;
  freePieces: number;
  free: number;
}
/** Where in an allocation of a pool a buffer of an allocator lies. */
export interface SlabPart {
  readonly slab: DeviceBuffer;
  readonly byteOffset: number;
}

/** Hands out parts of large allocations of a pool, in stream order, and keeps what is freed. */
export declare class CachingAllocator implements Disposable {
  readonly pool: MemoryPool;
  readonly device: CudaDevice | undefined;
  allocate(byteLength: number, stream?: CudaStream): DeviceBuffer;
  allocateArray<T extends TypedArray>(
    type: TypedArrayConstructor<T>,
    length: number,
    stream?: CudaStream,
  ): DeviceArray<T>;
  /** Waits for memory that others free; a request above the allocator's or the pool's limit is refused at once. */
  allocateAsync(byteLength: number, options?: AllocateAsyncOptions): Promise<DeviceBuffer>;
  usage(): CachingAllocatorUsage;
  usageBySizeClass(): SizeClassUsage[];
  resetHigh(): void;
  /** Gives slabs without buffers back to the pool until so many bytes are held or none can go. */
  trimTo(byteLength: number): void;
  /** What another process needs to map a buffer by hand. */
  slabOf(buffer: DeviceBuffer): SlabPart;
  [Symbol.dispose](): void;
}

/** A pool of another process. It cannot allocate: only map what that process allocated. */
export declare class ImportedMemoryPool implements Disposable {
  readonly device: CudaDevice;
  readonly unsafeHandle: bigint;
  importPointer(exportData: Uint8Array, byteLength: number): DeviceBuffer;
  getAccess(device: CudaDevice): Access;
  setAccess(devices: CudaDevice | readonly CudaDevice[], access: Access): void;
  [Symbol.dispose](): void;
}

export declare class DeviceBuffer implements Disposable {
  readonly address: bigint;
  readonly byteLength: number;
  /** The pool's device; for host-pool memory that of the stream it was allocated on, or through which it was imported. */
  readonly device: CudaDevice;
  readonly pool: MemoryPool | ImportedMemoryPool | undefined;
  /**
   * The stream that its methods use and on which it is freed, until set to another: the allocating one, or the device's
   * default stream for memory that was imported, opened, a module's global or from CudaDevice.allocate.
   */
  stream: CudaStream;
  /** A typed array's bytes have been taken when this returns; a HostBuffer's have not. */
  copyFrom(
    source: ArrayBufferView | ArrayBuffer | HostBuffer | DeviceBuffer,
    stream?: CudaStream,
    options?: CopyOptions,
  ): void;
  copyTo(target: HostBuffer | DeviceBuffer, stream?: CudaStream, options?: CopyOptions): void;
  /** `value` is a byte for a DeviceBuffer and an element for a DeviceArray; `begin` and `end` count elements. */
  fill(value: number | bigint, stream?: CudaStream, options?: FillOptions): void;
  /** The same memory as elements of a type. */
  as<T extends TypedArray>(type: TypedArrayConstructor<T>): DeviceArray<T>;
  /** Copies out through page-locked memory, without blocking the event loop. */
  read<T extends TypedArray>(type: TypedArrayConstructor<T>, options?: ReadOptions): Promise<T>;
  readSync<T extends TypedArray>(type: TypedArrayConstructor<T>, options?: Omit<ReadOptions, "signal">): T;
  /** A view of a part; freeing is the whole buffer's alone. */
  subarray(byteBegin: number, byteEnd?: number): DeviceBuffer;
  /** The buffer is used by what was given to this stream: its memory is not reused before that is done. */
  usedOn(stream: CudaStream): void;
  /** 64 bytes for another process's importPointer. */
  exportPointer(): Uint8Array<ArrayBuffer>;
  /** 64 bytes for another process's openMemory; memory from CudaDevice.allocate only. */
  exportHandle(): Uint8Array<ArrayBuffer>;
  /** Host memory seen in place; detached when the buffer is freed. */
  hostView(): ArrayBuffer;
  free(stream?: CudaStream): void;
  [Symbol.dispose](): void;
}

export declare class DeviceArray<T extends TypedArray> extends DeviceBuffer {
  readonly length: number;
  readonly type: TypedArrayConstructor<T>;
  /** Counted in elements, as in a typed array. */
  override subarray(begin: number, end?: number): DeviceArray<T>;
  toTypedArray(options?: ReadOptions): Promise<T>;
}

export declare class HostBuffer implements Disposable {
  /** What a kernel may read and write in place. */
  readonly address: bigint;
  /** Detached when freed. */
  readonly buffer: ArrayBuffer;
  readonly byteLength: number;
  [Symbol.dispose](): void;
}

/** Memory without an address, which lives as long as anybody has a handle, a descriptor or a mapping of it. */
export declare class PhysicalMemory implements Disposable {
  readonly device: CudaDevice;
  readonly byteLength: number;
  readonly handleType: "none" | "posix-fd" | "fabric";
  readonly unsafeHandle: bigint;
  exportHandle(): ShareableHandle;
  [Symbol.dispose](): void;
}

/** Reserved addresses, in which memory is mapped. */
export declare class AddressRange implements Disposable {
  readonly address: bigint;
  readonly byteLength: number;
  readonly mappedByteLength: number;
  /** Freeing the buffer unmaps the memory, once the work with it is done. */
  map(memory: PhysicalMemory, options?: MapMemoryOptions): DeviceBuffer;
  /** A view of what is mapped side by side. */
  buffer(options?: RangePart): DeviceBuffer;
  setAccess(devices: CudaDevice | readonly CudaDevice[], access: Access, options?: RangePart): void;
  [Symbol.dispose](): void;
}

/** Owns a file descriptor, closed once, or a 64-byte fabric handle. Sending and importing borrow it. */
export declare class ShareableHandle implements Disposable {
  readonly type: "posix-fd" | "fabric";
  readonly fd: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Takes the descriptor over. */
  static fromFd(fd: number): ShareableHandle;
  static fromBytes(bytes: Uint8Array): ShareableHandle;
  [Symbol.dispose](): void;
}

/** Kernels are checked by the compiler where the module was loaded from a Ptx. */
export declare class CudaModule<Kernels extends { [Name in keyof Kernels]: readonly KernelArgument[] } = AnyKernels>
  implements Disposable {
  readonly kernelNames: readonly string[];
  /** What the compiler and the driver's JIT said; empty where nothing. */
  readonly log: string;
  /** parameters: needed where the image is binary and does not say. */
  kernel<Name extends keyof Kernels & string>(
    name: Name,
    options?: { parameters?: readonly (ParameterType | "pointer")[] },
  ): CudaKernel<Kernels[Name]>;
  getGlobal(name: string): DeviceBuffer;
  /** How the software device supports what the kernels reach; on a GPU, whether the module would run without one. */
  instructionSupport(): readonly InstructionSupport[];
  [Symbol.dispose](): void;
}

export interface InstructionUse {
  readonly instruction: string;
  /** Its section in the PTX ISA manual. Undefined if it is not an instruction. */
  readonly section: string | undefined;
  readonly lines: readonly number[];
  readonly kernels: readonly string[];
  /** Of a module that was linked: the PTX that the lines are those of. */
  readonly image?: string;
}
export interface ExactInstruction extends InstructionUse {
  readonly support: "exact";
  readonly mayBeFused: boolean;
}
export interface ApproximateInstruction extends InstructionUse {
  readonly support: "approximate";
  readonly bound: string;
}
export interface IgnoredInstruction extends InstructionUse {
  readonly support: "ignored";
}
export interface UnsupportedInstruction extends InstructionUse {
  readonly support: "unsupported";
  readonly reason: string;
}
export type InstructionSupport =
  | UnsupportedInstruction
  | ApproximateInstruction
  | IgnoredInstruction
  | ExactInstruction;

export declare class CudaKernel<Parameters extends readonly KernelArgument[] = readonly KernelArgument[]> {
  readonly name: string;
  readonly parameters: readonly ParameterType[];
  launch(options: LaunchOptions, ...args: Parameters): void;
  readonly attributes: KernelAttributes;
  get cacheConfig(): CacheConfig;
  set cacheConfig(value: CacheConfig);
  get preferredSharedMemoryCarveout(): number | "default";
  set preferredSharedMemoryCarveout(value: SharedMemoryCarveout);
  maxActiveBlocksPerMultiprocessor(blockSize: number, sharedMemoryBytes?: number): number;
  maxPotentialBlockSize(options?: PotentialBlockSizeOptions): { block: number; minimumGrid: number };
  maxActiveClusters(options: ActiveClustersOptions): number;
}

/** SOCK_STREAM in the Unix domain, with descriptors. */
export declare class UnixListener implements AsyncDisposable {
  /** mode: 0o600 unless given; a live socket at the path is an error, a stale one is replaced. */
  static listen(path: string, options?: { mode?: number }): UnixListener;
  readonly path: string;
  accept(options?: WaitOptions): Promise<UnixSocket>;
  [Symbol.asyncDispose](): Promise<void>;
}
export declare class UnixSocket implements AsyncDisposable {
  static connect(path: string, options?: WaitOptions): Promise<UnixSocket>;
  readonly peer: { readonly pid: number; readonly uid: number; readonly gid: number };
  send(bytes: Uint8Array, options?: WaitOptions & { handles?: readonly ShareableHandle[] }): Promise<void>;
  /** Exactly byteLength bytes and exactly the number of handles asked for, or an error and every descriptor closed. */
  receive(
    byteLength: number,
    options?: WaitOptions & { handles?: number },
  ): Promise<{ bytes: Uint8Array<ArrayBuffer>; handles: ShareableHandle[] }>;
  [Symbol.asyncDispose](): Promise<void>;
}

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };
export interface ExporterOptions {
  /** Other users whose processes may connect; the socket's mode is then 0666, else 0600. */
  users?: readonly number[];
  maximumImporters?: number;
  maximumImportersPerUser?: number;
  /** Of connections that have not said who they are. */
  maximumHandshakes?: number;
  /** Bytes of names and metadata of all offers at a time. */
  maximumMetadata?: number;
  /** Milliseconds, as all of these. */
  handshakeTimeout?: number;
  messageTimeout?: number;
  closeTimeout?: number;
  /** The handshake is complete. */
  onConnect?: (peer: Peer) => void;
  onDisconnect?: (peer: Peer, error: SharingError | undefined) => void;
  /** Accepting fails: once until it works again. */
  onError?: (error: Error) => void;
}
export interface OfferOptions {
  metadata?: JsonValue;
  stream?: CudaStream;
}
export interface ChannelOptions {
  pool: MemoryPool;
  slots: number;
  slotByteLength: number;
  metadata?: JsonValue;
  overflow?: "wait" | "drop-oldest";
  minimumConsumers?: number;
  /** If frames are dropped: how many a consumer may hold at a time; 2, or 1 of fewer than 3 slots. */
  window?: number;
  /** Milliseconds; Infinity, or 30,000 if frames are dropped. */
  holdTimeout?: number;
  stream?: CudaStream;
}
export interface SendFrameOptions {
  byteLength?: number;
  metadata?: JsonValue;
  stream?: CudaStream;
}
export interface RecallOptions extends WaitOptions {
  /** Milliseconds after which the holder is cut off. */
  deadline?: number;
}
export type LeaseState = "announced" | "held" | "releasing" | "quarantined";
export interface ImporterOptions extends WaitOptions {
  users?: readonly number[];
  /** For an exporter that is yet to start. */
  wait?: boolean;
  maximumMetadata?: number;
  handshakeTimeout?: number;
  messageTimeout?: number;
  closeTimeout?: number;
}
export interface MapOptions extends WaitOptions {
  stream?: CudaStream;
}
export interface ConsumerOptions extends WaitOptions {
  stream?: CudaStream;
}
export interface Peer {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
}

// -- a store of memory that outlives its makers

export interface MemoryStoreOptions extends ExporterOptions {
  devices?: readonly CudaDevice[];
  maxSize?: number;
  maxSizeOfUser?: number;
  evict?: boolean;
  standby?: string;
  reclaimTimeout?: number;
  onServe?: () => void;
  onStandby?: () => void;
}
export declare class MemoryStore implements AsyncDisposable {
  static listen(cuda: Cuda, path: string, options?: MemoryStoreOptions): MemoryStore;
  readonly path: string;
  readonly isServing: boolean;
  status(): StoreStatus | undefined;
  [Symbol.asyncDispose](): Promise<void>;
}
export interface StoreClientOptions extends ImporterOptions {
  reconnectTimeout?: number;
}
export interface CreateEntryOptions extends MapOptions {
  device?: CudaDevice;
  metadata?: JsonValue;
}
export interface MapEntryOptions extends MapOptions {
  write?: boolean;
}
export declare class StoreClient implements AsyncDisposable {
  static connect(cuda: Cuda, path: string, options?: StoreClientOptions): Promise<StoreClient>;
  readonly path: string;
  create(name: string, byteLength: number, options?: CreateEntryOptions): Promise<StoredMemory>;
  map(name: string, options?: MapEntryOptions): Promise<DeviceBuffer>;
  entries(): Promise<readonly StoreEntry[]>;
  remove(name: string): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
export declare class StoredMemory implements AsyncDisposable {
  readonly name: string;
  readonly buffer: DeviceBuffer;
  publish(stream?: CudaStream): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
export interface StoreEntry {
  readonly name: string;
  readonly byteLength: number;
  readonly generation: number;
  readonly metadata: JsonValue | undefined;
  readonly readers: readonly Peer[];
  readonly device: string;
  readonly since: number;
}

/** Offers memory to other processes. */
export declare class Exporter implements AsyncDisposable {
  static listen(path: string, options?: ExporterOptions): Exporter;
  readonly path: string;
  readonly offers: readonly Offer[];
  /** Who holds what, since when, as far as the importers' messages have arrived. */
  readonly leases: readonly Lease[];
  readonly importers: readonly Peer[];
  statistics(): ExporterStatistics;
  offer(name: string, source: DeviceBuffer | MemoryPool, options?: OfferOptions): Offer;
  createChannel(name: string, options: ChannelOptions): ChannelProducer;
  [Symbol.asyncDispose](): Promise<void>;
}
/** Plain data. Totals count from `since`, milliseconds since 1970; the other numbers are of the moment. */
export interface ExporterStatistics {
  readonly path: string;
  readonly since: number;
  readonly importers: {
    readonly connected: number;
    readonly handshakes: number;
    /** Not connected any more, and may have memory mapped. */
    readonly lingering: number;
    /** Totals, as refused and ended. */
    readonly accepted: number;
    readonly refused: { readonly [Code in SharingError["code"]]?: number };
    readonly ended: { readonly [Code in SharingError["code"] | "done"]?: number };
  };
  /** Connected: they look, and hold nothing. */
  readonly operators: number;
  readonly offers: {
    readonly count: number;
    readonly byteLength: number;
    /** And still held. */
    readonly withdrawn: number;
    /** Total. */
    readonly made: number;
  };
  readonly leases: { readonly [State in LeaseState]: LeaseStatistics };
  readonly quarantinedByteLength: number;
  readonly traffic: TrafficStatistics;
  readonly channels: readonly ChannelStatistics[];
}
export interface LeaseStatistics {
  readonly count: number;
  readonly byteLength: number;
}
/** Totals. */
export interface TrafficStatistics {
  readonly messagesSent: number;
  readonly messagesReceived: number;
  readonly bytesSent: number;
  readonly bytesReceived: number;
}
export interface ChannelStatistics {
  readonly name: string;
  readonly slots: number;
  readonly slotByteLength: number;
  readonly freeSlots: number;
  readonly quarantinedSlots: number;
  /** Totals: frames, bytes, frames. */
  readonly sent: number;
  readonly bytesSent: number;
  readonly dropped: number;
  readonly consumers: readonly ConsumerStatistics[];
}
export interface ConsumerStatistics {
  readonly peer: Peer;
  /** Totals. */
  readonly sent: number;
  readonly dropped: number;
  readonly held: number;
  /** Frames that it holds or was not sent yet. */
  readonly lag: number;
}
export declare class Offer {
  readonly name: string;
  readonly byteLength: number;
  readonly metadata: JsonValue | undefined;
  readonly isWithdrawn: boolean;
  readonly leases: readonly Lease[];
  withdraw(): void;
  /** When so many importers have mapped it and released it. */
  released(options?: WaitOptions & { importers?: number }): Promise<void>;
  /** When it was withdrawn and nobody holds it. */
  ended(options?: WaitOptions): Promise<void>;
}
export declare class Lease {
  readonly name: string;
  readonly peer: Peer;
  readonly since: Date;
  readonly state: LeaseState | "ended";
  readonly byteLength: number;
  recall(options?: RecallOptions): Promise<void>;
}
/** A connection to an exporter. */
/** Looks at an exporter or a store, and holds nothing. */
export declare class Operator implements AsyncDisposable {
  static connect(path: string, options?: OperatorOptions): Promise<Operator>;
  readonly path: string;
  readonly peer: Peer;
  readonly isConnected: boolean;
  status(options?: WaitOptions): Promise<ListenerStatus>;
  [Symbol.asyncDispose](): Promise<void>;
}
export interface OperatorOptions extends WaitOptions {
  users?: readonly number[];
  handshakeTimeout?: number;
  messageTimeout?: number;
  wait?: boolean;
}
/** In Prometheus' text format. */
export declare function prometheusText(numbers: ExporterStatistics | StoreStatus): string;
/** Plain data. Times are milliseconds since 1970. */
export type ListenerStatus = ExporterStatus | StoreStatus;
export interface CommonStatus {
  readonly version: string;
  readonly pid: number;
  readonly leftOut: LeftOut;
}
/** How much is not listed. */
export interface LeftOut {
  readonly rows: number;
  readonly holders: number;
  readonly metadata: number;
}
export interface ExporterStatus extends CommonStatus {
  readonly kind: "exporter";
  readonly statistics: ExporterStatistics;
  readonly offers: readonly OfferStatus[];
}
export interface OfferStatus {
  readonly name: string;
  readonly kind: "buffer" | "pool" | "channel";
  readonly byteLength: number;
  readonly since: number;
  /** A UUID; null for host memory. */
  readonly device: string | null;
  readonly isWithdrawn: boolean;
  readonly metadata?: JsonValue;
  readonly holders: readonly HolderStatus[];
}
export interface ProcessStatus {
  readonly pid: number;
  readonly uid: number;
  readonly since: number;
}
export interface HolderStatus extends ProcessStatus {
  readonly state: LeaseState;
  readonly count: number;
}
export interface StoreStatus extends CommonStatus {
  readonly kind: "store";
  readonly statistics: StoreStatistics;
  readonly limits: StoreLimits;
  readonly entries: readonly StoreEntryStatus[];
}
export interface StoreStatistics {
  readonly path: string;
  readonly since: number;
  readonly clients: number;
  readonly operators: number;
  readonly entries: number;
  readonly byteLength: number;
  /** Total. */
  readonly published: number;
}
export interface StoreLimits {
  readonly maxSize: number | null;
  readonly maxSizeOfUser: number | null;
}
export type StoreEntryState = "unpublished" | "published" | "replaced" | "removed";
export interface StoreEntryStatus {
  readonly name: string;
  readonly generation: number;
  readonly state: StoreEntryState;
  readonly byteLength: number;
  readonly device: string | null;
  readonly since: number;
  readonly metadata?: JsonValue;
  readonly readers: readonly ProcessStatus[];
  readonly writer?: ProcessStatus;
}
export declare class Importer implements AsyncDisposable {
  static connect(cuda: Cuda, path: string, options?: ImporterOptions): Promise<Importer>;
  readonly peer: Peer;
  readonly isConnected: boolean;
  /** The type of metadata is not checked, here and below. */
  offers<Metadata = JsonValue>(options?: WaitOptions): AsyncGenerator<RemoteOffer<Metadata>, void>;
  [Symbol.asyncIterator](): AsyncGenerator<RemoteOffer, void>;
  offer<Metadata = JsonValue>(name: string, options?: WaitOptions): Promise<RemoteOffer<Metadata>>;
  channel<Metadata = JsonValue, FrameMetadata = JsonValue>(
    name: string,
    options?: ConsumerOptions,
  ): Promise<ChannelConsumer<Metadata, FrameMetadata>>;
  [Symbol.asyncDispose](): Promise<void>;
}
export declare class RemoteOffer<Metadata = JsonValue> {
  readonly name: string;
  readonly kind: "buffer" | "pool" | "channel";
  readonly byteLength: number;
  readonly metadata: Metadata | undefined;
  readonly isWithdrawn: boolean;
  /** Aborted when the exporter asks for it back. */
  readonly recalled: AbortSignal;
  map(options?: MapOptions): Promise<DeviceBuffer>;
  mapArray<T extends TypedArray>(type: TypedArrayConstructor<T>, options?: MapOptions): Promise<DeviceArray<T>>;
  importPool(): ImportedMemoryPool;
}
export declare class ChannelProducer implements AsyncDisposable {
  readonly name: string;
  readonly slotByteLength: number;
  readonly consumers: readonly Peer[];
  readonly sent: number;
  readonly dropped: number;
  readonly freeSlots: number;
  /** Slots that processes may still use whose connections have ended. */
  readonly quarantinedSlots: number;
  reserve(options?: WaitOptions): Promise<Slot>;
  send(slot: Slot, options?: SendFrameOptions): void;
  end(): void;
  [Symbol.asyncDispose](): Promise<void>;
}
export declare class Slot implements Disposable {
  readonly buffer: DeviceBuffer;
  readonly index: number;
  /** Gives it back unless it was sent. */
  [Symbol.dispose](): void;
}
export declare class ChannelConsumer<Metadata = JsonValue, FrameMetadata = JsonValue>
  implements AsyncDisposable, AsyncIterable<ReceivedSlot<FrameMetadata>> {
  readonly name: string;
  readonly slotByteLength: number;
  readonly slots: number;
  readonly metadata: Metadata | undefined;
  next(options?: WaitOptions): Promise<ReceivedSlot<FrameMetadata> | undefined>;
  [Symbol.asyncIterator](): AsyncGenerator<ReceivedSlot<FrameMetadata>, void>;
  [Symbol.asyncDispose](): Promise<void>;
}
export declare class ReceivedSlot<Metadata = JsonValue> implements Disposable {
  readonly buffer: DeviceBuffer;
  readonly index: number;
  readonly sequence: number;
  readonly metadata: Metadata | undefined;
  release(stream?: CudaStream): void;
  [Symbol.dispose](): void;
}

export declare class CudaError extends Error {
  override readonly name: "CudaError";
  /** "cudaErrorInvalidValue" */
  readonly code: string;
  readonly number: number;
  /** "cudaMemPoolImportPointer" */
  readonly call: string;
}
/** The compiler refused the source. */
export declare class CompileError extends Error {
  override readonly name: "CompileError";
  /** Its messages, as it wrote them. */
  readonly log: string;
  /** Of the first error; 1 is the first. */
  readonly file: string;
  readonly line: number;
  readonly column: number | undefined;
}
/** There is no GPU to be used here. */
export declare class CudaUnavailableError extends Error {
  override readonly name: "CudaUnavailableError";
}
export declare class SharingError extends Error {
  override readonly name: "SharingError";
  /** An open set: handle codes that you do not know. */
  readonly code:
    | "peer-gone"
    | "timed-out"
    | "bad-message"
    | "version-mismatch"
    | "not-permitted"
    | "limit-exceeded"
    | "device-lost"
    | "internal-error"
    | "device-not-visible"
    | "size-mismatch"
    | "address-in-use"
    | "path-too-long"
    | "not-found"
    | "not-listening"
    | "cut-off"
    | "out-of-descriptors"
    | "not-supported";
}
/** `cudaDeviceAttr` of CUDA 13.0. */
export type DeviceAttributeName =
  | "maxThreadsPerBlock"
  | "maxBlockDimX"
  | "maxBlockDimY"
  | "maxBlockDimZ"
  | "maxGridDimX"
  | "maxGridDimY"
  | "maxGridDimZ"
  | "maxSharedMemoryPerBlock"
  | "totalConstantMemory"
  | "warpSize"
  | "maxPitch"
  | "maxRegistersPerBlock"
  | "clockRate"
  | "textureAlignment"
  | "gpuOverlap"
  | "multiProcessorCount"
  | "kernelExecTimeout"
  | "integrated"
  | "canMapHostMemory"
  | "computeMode"
  | "maxTexture1DWidth"
  | "maxTexture2DWidth"
  | "maxTexture2DHeight"
  | "maxTexture3DWidth"
  | "maxTexture3DHeight"
  | "maxTexture3DDepth"
  | "maxTexture2DLayeredWidth"
  | "maxTexture2DLayeredHeight"
  | "maxTexture2DLayeredLayers"
  | "surfaceAlignment"
  | "concurrentKernels"
  | "eccEnabled"
  | "pciBusId"
  | "pciDeviceId"
  | "tccDriver"
  | "memoryClockRate"
  | "globalMemoryBusWidth"
  | "l2CacheSize"
  | "maxThreadsPerMultiProcessor"
  | "asyncEngineCount"
  | "unifiedAddressing"
  | "maxTexture1DLayeredWidth"
  | "maxTexture1DLayeredLayers"
  | "maxTexture2DGatherWidth"
  | "maxTexture2DGatherHeight"
  | "maxTexture3DWidthAlt"
  | "maxTexture3DHeightAlt"
  | "maxTexture3DDepthAlt"
  | "pciDomainId"
  | "texturePitchAlignment"
  | "maxTextureCubemapWidth"
  | "maxTextureCubemapLayeredWidth"
  | "maxTextureCubemapLayeredLayers"
  | "maxSurface1DWidth"
  | "maxSurface2DWidth"
  | "maxSurface2DHeight"
  | "maxSurface3DWidth"
  | "maxSurface3DHeight"
  | "maxSurface3DDepth"
  | "maxSurface1DLayeredWidth"
  | "maxSurface1DLayeredLayers"
  | "maxSurface2DLayeredWidth"
  | "maxSurface2DLayeredHeight"
  | "maxSurface2DLayeredLayers"
  | "maxSurfaceCubemapWidth"
  | "maxSurfaceCubemapLayeredWidth"
  | "maxSurfaceCubemapLayeredLayers"
  | "maxTexture1DLinearWidth"
  | "maxTexture2DLinearWidth"
  | "maxTexture2DLinearHeight"
  | "maxTexture2DLinearPitch"
  | "maxTexture2DMipmappedWidth"
  | "maxTexture2DMipmappedHeight"
  | "computeCapabilityMajor"
  | "computeCapabilityMinor"
  | "maxTexture1DMipmappedWidth"
  | "streamPrioritiesSupported"
  | "globalL1CacheSupported"
  | "localL1CacheSupported"
  | "maxSharedMemoryPerMultiprocessor"
  | "maxRegistersPerMultiprocessor"
  | "managedMemory"
  | "isMultiGpuBoard"
  | "multiGpuBoardGroupID"
  | "hostNativeAtomicSupported"
  | "singleToDoublePrecisionPerfRatio"
  | "pageableMemoryAccess"
  | "concurrentManagedAccess"
  | "computePreemptionSupported"
  | "canUseHostPointerForRegisteredMem"
  | "cooperativeLaunch"
  | "maxSharedMemoryPerBlockOptin"
  | "canFlushRemoteWrites"
  | "hostRegisterSupported"
  | "pageableMemoryAccessUsesHostPageTables"
  | "directManagedMemAccessFromHost"
  | "maxBlocksPerMultiprocessor"
  | "maxPersistingL2CacheSize"
  | "maxAccessPolicyWindowSize"
  | "sparseCudaArraySupported"
  | "hostRegisterReadOnlySupported"
  | "timelineSemaphoreInteropSupported"
  | "memoryPoolsSupported"
  | "gPUDirectRDMASupported"
  | "gPUDirectRDMAFlushWritesOptions"
  | "gPUDirectRDMAWritesOrdering"
  | "memoryPoolSupportedHandleTypes"
  | "clusterLaunch"
  | "deferredMappingCudaArraySupported"
  | "ipcEventSupport"
  | "memSyncDomainCount"
  | "numaConfig"
  | "numaId"
  | "mpsEnabled"
  | "hostNumaId"
  | "d3D12CigSupported"
  | "vulkanCigSupported"
  | "gpuPciDeviceId"
  | "gpuPciSubsystemId"
  | "hostNumaMemoryPoolsSupported"
  | "hostNumaMultinodeIpcSupported"
  | "hostMemoryPoolsSupported"
  | "onlyPartialHostNativeAtomicSupported";

// -- the sanitizer

export type SanitizerCheck = "stream-order" | "memory" | "initialization" | "race" | "synchronization" | "leak";
export interface SanitizerAccess {
  /** "kernel saxpy", "copyFrom", "free", "allocate", ... */
  readonly operation: string;
  readonly access: "read" | "write" | "atomic" | "allocate" | "free" | "barrier";
  readonly stream: string | undefined;
  /** Where it was called in TypeScript. */
  readonly stack: string;
  readonly block?: readonly [number, number, number];
  readonly thread?: readonly [number, number, number];
  /** "saxpy.cu:12" where the PTX has line info, else "PTX line 31". */
  readonly source?: string;
  /** Another process's. */
  readonly pid?: number;
}
export interface SanitizerReport {
  readonly check: SanitizerCheck;
  /** "use-after-free", "unordered-write-read", "out-of-bounds", "uninitialized-read", "shared-race", ... */
  readonly kind: string;
  readonly message: string;
  /** The later access, then the earlier one. */
  readonly accesses: readonly SanitizerAccess[];
  /** How often it was seen so far: grows. */
  readonly count: number;
}
export declare class SanitizerError extends Error {
  override readonly name: "SanitizerError";
  readonly reports: readonly SanitizerReport[];
}
