/**
 * CUDA stream-ordered memory pools for Deno, Bun and Node, and their sharing between processes. On a machine without a
 * GPU, the same program runs on a software device that executes the same PTX.
 *
 * @example
 * ```ts
 * import { open } from "./mod.ts";
 * import { ptx } from "./kernels/saxpy.ts";
 *
 * using cuda = open();
 * const gpu = cuda.device(0);
 * using stream = gpu.createStream();
 * using pool = gpu.createPool();
 * using x = pool.allocateArray(Float32Array, 1024, stream);
 * using y = pool.allocateArray(Float32Array, 1024, stream);
 * x.copyFrom(new Float32Array(1024).fill(1));
 * y.copyFrom(new Float32Array(1024).fill(2));
 * using module = gpu.loadModule(ptx);
 * module.kernel("saxpy").launch({ grid: 4, block: 256, stream }, 1024, 2.5, x, y);
 * console.log(await y.toTypedArray());
 * ```
 *
 * @module
 */
// Devices, streams and events: what `open` returns, and the order of work on a device.
export { open, type OpenOptions } from "./src/open.ts";
export { version } from "./src/support/version.ts";
export { Cuda } from "./src/objects/cuda.ts";
export { CudaDevice } from "./src/objects/cuda_device.ts";
export type { DeviceAttributeName } from "./src/support/device_attributes.ts";
export { CudaStream, type ExternalOption, type StreamOptions } from "./src/objects/streams/cuda_stream.ts";
export type { OrStream, StreamOption } from "./src/objects/streams/stream_option.ts";
export { CudaEvent, type EventOptions } from "./src/objects/streams/cuda_event.ts";
export type { WaitOptions } from "./src/support/waiting/waiting.ts";
export type { BenchmarkOptions, BenchmarkResult } from "./src/objects/benchmark.ts";

// Graphs: work that is captured or added once, and launched often.
export {
  type ArgumentUpdate,
  type BoundArgument,
  GraphArgument,
  type GraphArguments,
  type GraphArgumentValue,
  type LaunchArguments,
} from "./src/objects/graphs/graph_argument.ts";
export { CudaGraph, CudaGraphExec, type DotOptions, type InstantiateOptions } from "./src/objects/graphs/cuda_graph.ts";
export { GraphNode, type GraphNodeType } from "./src/objects/graphs/graph_node.ts";
export type { ConditionalOptions, KernelNodeOptions, NodeOptions } from "./src/objects/graphs/graph_nodes.ts";
export { type ConditionOptions, GraphCondition } from "./src/objects/graphs/graph_condition.ts";
export type {
  CopyNodeParameters,
  EventNodeParameters,
  FillNodeParameters,
  KernelNodeParameters,
  NodeParameters,
} from "./src/objects/graphs/node_parameters.ts";
export type { GraphMemory } from "./src/objects/graphs/graph_memory.ts";
export type { DeviceLimits } from "./src/objects/device_limits.ts";
export { type CaptureOptions, GraphCapture } from "./src/objects/graphs/graph_capture.ts";

// Memory: pools, and what is allocated from them or without them.
export type { DiscardOptions, MemoryAdvice } from "./src/memory/managed/memory_advice.ts";
export type { MemoryLocation } from "./src/memory/managed/memory_location.ts";
export type { ManagedPoolOptions, PoolKind } from "./src/memory/managed/managed_pools.ts";
export type { HostLocation } from "./src/memory/pools/pool_attributes.ts";
export { MemoryPool, type PoolOptions } from "./src/memory/pools/memory_pool.ts";
export type { PoolHandleType, ShareableHandleType } from "./src/memory/pools/handle_types.ts";
export type { Access, PoolUsage, ReusePolicies } from "./src/memory/pools/pool_attributes.ts";
export type { AllocateOptions, WrapOptions } from "./src/memory/unpooled_memory.ts";
export type { AllocateAsyncOptions } from "./src/memory/pools/allocation_queue.ts";
export { DeviceBuffer } from "./src/memory/device_buffer.ts";
export { DeviceArray } from "./src/memory/device_array.ts";
export type { ArrayOptions } from "./src/memory/dtypes.ts";
export type { SlabPart } from "./src/memory/allocation.ts";
export type { TypedArray, TypedArrayConstructor } from "./src/support/validation.ts";
export { HostBuffer, type HostOptions } from "./src/memory/transfers/host_buffer.ts";
export type { RegisterHostOptions } from "./src/memory/transfers/registered_memory.ts";
export { CachingAllocator } from "./src/memory/caching/caching_allocator.ts";
export type { CachingAllocatorOptions } from "./src/memory/caching/allocator_options.ts";
export type { CachingAllocatorUsage, SizeClassUsage } from "./src/memory/caching/block.ts";
export {
  AddressRange,
  type MapMemoryOptions,
  type RangePart,
  type ReserveOptions,
} from "./src/memory/virtual/address_range.ts";
export { PhysicalMemory, type PhysicalMemoryOptions } from "./src/memory/virtual/physical_memory.ts";

// Snapshots: what is where in the memory of pools.
export {
  type AllocationHolder,
  type AllocationSnapshot,
  type BlockSnapshot,
  MemorySnapshot,
  type PoolHolder,
  type PoolSnapshot,
} from "./src/memory/snapshots/memory_snapshot.ts";

// Copies: what copies, fills and reads take, and rows of elements.
export {
  type ArrayOf,
  type Extent,
  type Origin,
  PitchedArray,
  type PitchedData,
  type PitchOptions,
} from "./src/memory/pitched_array.ts";
export type { ArrayFormat, CudaArrayOptions } from "./src/memory/arrays/array_format.ts";
export { type ArrayCopyOptions, CudaArray } from "./src/memory/arrays/cuda_array.ts";
export { CudaMipmappedArray, type MipmappedArrayOptions } from "./src/memory/arrays/mipmapped_array.ts";
export { CudaSurface } from "./src/objects/textures/cuda_surface.ts";
export { CudaTexture, type TextureSource } from "./src/objects/textures/cuda_texture.ts";
export type { AddressMode, FilterMode, TextureOptions, TextureView } from "./src/objects/textures/texture_options.ts";
export type { BatchCopy, CopyAttributes } from "./src/memory/copy_batch.ts";
export type { CopyOptions } from "./src/memory/transfers/copies.ts";
export type { FillOptions } from "./src/memory/transfers/copies.ts";
export type { ReadOptions } from "./src/memory/transfers/reads.ts";

// Kernels: modules of PTX or compiled CUDA C++, launches, and structs as arguments.
export { CudaModule } from "./src/objects/modules/cuda_module.ts";
export type { LinkImage, LoadModuleOptions } from "./src/objects/modules/load_module.ts";
export type { CompileOptions } from "./src/compile/compile_options.ts";
export type { CompiledProgram } from "./src/compile/compilers.ts";
export { CudaKernel } from "./src/objects/kernels/cuda_kernel.ts";
export type { Dim3, LaunchOptions } from "./src/objects/kernels/launch_options.ts";
export type { KernelArgument, TextureArgument } from "./src/objects/kernels/kernel_arguments.ts";
export type { ParameterType } from "./src/ptx/kernel_signature.ts";
export type {
  ActiveClustersOptions,
  CacheConfig,
  KernelAttributes,
  PotentialBlockSizeOptions,
  SharedMemoryCarveout,
} from "./src/objects/kernels/kernel_attributes.ts";
export type { AnyKernels, Pointer, Ptx, PtxKernels } from "./src/objects/kernels/parameter_types.ts";
export {
  type FieldInput,
  type FieldOutput,
  type FieldType,
  type FieldValue,
  type Struct,
  struct,
  type StructArgument,
  type StructFields,
  type StructInput,
  type StructOptions,
  type StructOutput,
  type StructValue,
} from "./src/objects/structs/struct.ts";
export type {
  ApproximateInstruction,
  ExactInstruction,
  IgnoredInstruction,
  InstructionSupport,
  InstructionUse,
  UnsupportedInstruction,
} from "./src/ptx/instruction_support.ts";

// Tensor maps: tensors of which kernels copy boxes to and from shared memory.
export {
  type PixelBoxOptions,
  TensorMap,
  type TensorMapOptions,
  type TensorMapType,
  type TensorMemory,
} from "./src/objects/kernels/tensor_map.ts";

// Errors: what calls throw, and what the sanitizer reports.
export { CudaError, CudaUnavailableError } from "./src/support/errors.ts";
export { CompileError } from "./src/compile/compile_error.ts";
export {
  type SanitizerAccess,
  type SanitizerCheck,
  SanitizerError,
  type SanitizerReport,
} from "./src/sanitizer/reporting/sanitizer_report.ts";

// Sharing, also in `sharing.ts`: memory that several processes use, and channels of frames between them.
export { Exporter, type ExporterOptions, type OfferOptions } from "./src/sharing/exporter/exporter.ts";
export { Offer } from "./src/sharing/exporter/offer.ts";
export { Lease, type RecallOptions } from "./src/sharing/exporter/lease.ts";
export type { LeaseState } from "./src/sharing/exporter/lease.ts";
export { Importer, type ImporterOptions } from "./src/sharing/importer/importer.ts";
export { type MapOptions, RemoteOffer } from "./src/sharing/importer/remote_offer.ts";
export type { JsonValue } from "./src/sharing/protocol/metadata.ts";
export { type ChannelOptions, ChannelProducer, type SendFrameOptions } from "./src/sharing/channel/channel_producer.ts";
export { ReceivedSlot, Slot } from "./src/sharing/channel/slot.ts";
export { ChannelConsumer, type ConsumerOptions } from "./src/sharing/channel/channel_consumer.ts";
export { ShareableHandle } from "./src/memory/handles/shareable_handle.ts";
export { ImportedMemoryPool } from "./src/memory/handles/imported_memory_pool.ts";
export { type ListenOptions, UnixListener } from "./src/sharing/transport/unix_listener.ts";
export {
  type Peer,
  type Received,
  type ReceiveOptions,
  type SendOptions,
  UnixSocket,
} from "./src/sharing/transport/unix_socket.ts";
export { SharingError, type SharingErrorCode } from "./src/support/errors.ts";
export type { ExporterStatistics, LeaseStatistics } from "./src/sharing/exporter/exporter_statistics.ts";
export type { ChannelStatistics, ConsumerStatistics } from "./src/sharing/channel/channel_hub.ts";
export type { TrafficStatistics } from "./src/sharing/protocol/message_stream.ts";

// Store, also in `store.ts`: memory that outlives the process that created it.
export { MemoryStore, type MemoryStoreOptions } from "./src/sharing/store/memory_store.ts";
export type { SavedEntry } from "./src/sharing/store/memories/saved_entry.ts";
export {
  type CreateEntryOptions,
  type CreateOnceOptions,
  type EntriesOptions,
  type MapEntryOptions,
  type OffloadOptions,
  type PublishEntryOptions,
  type ShareMemoryOptions,
  StoreClient,
  type StoreClientOptions,
  type StoreEntry,
} from "./src/sharing/store/store_client.ts";
export { StoredMemory } from "./src/sharing/store/store_client.ts";
export { type EntryMove, MappedEntry, type WakeEntryOptions } from "./src/sharing/store/mapped_entry.ts";

// Collectives, also in `collectives.ts`: all-reduces and other operations among several devices.
export { Communicator } from "./src/collectives/communicator.ts";
export type { CommunicatorOptions } from "./src/collectives/communicator_creation.ts";
export type { CollectiveOptions, CommunicationType, Reduction } from "./src/collectives/collective_arguments.ts";

// Operators, also in `operators.ts`: the status of exporters and stores, and their metrics.
export { Operator, type OperatorOptions } from "./src/sharing/operator/operator.ts";
export type {
  CommonStatus,
  ExporterStatus,
  HolderStatus,
  LeftOut,
  ListenerStatus,
  OfferStatus,
  ProcessStatus,
  StoreEntryState,
  StoreEntryStatus,
  StoreLimits,
  StoreStatistics,
  StoreStatus,
} from "./src/sharing/operator/status.ts";
export { prometheusText } from "./src/sharing/operator/prometheus_text.ts";
export {
  type EventRefusal,
  type ImportRefusal,
  type RefusalStatistics,
  refusalStatistics,
} from "./src/support/refusals.ts";
