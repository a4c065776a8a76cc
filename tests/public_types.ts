/**
 * For the type checker alone: what `mod.ts` exports is what `api.ts` declares.
 *
 * @module
 */
import type * as ours from "../mod.ts";
import type * as declared from "./api.ts";

/** Only a type that is assignable to the declared one is accepted. */
type Assignable<Declared, Ours extends Declared> = Ours;
/** What there is of a class beside its instances. Constructors are no part of the vocabulary. */
type Statics<C> = Omit<C, "prototype">;

/** Each class's instances. */
export type Instances = [
  Assignable<declared.Cuda, ours.Cuda>,
  Assignable<declared.CudaDevice, ours.CudaDevice>,
  Assignable<declared.CudaStream, ours.CudaStream>,
  Assignable<declared.CudaEvent, ours.CudaEvent>,
  Assignable<declared.MemoryPool, ours.MemoryPool>,
  Assignable<declared.CachingAllocator, ours.CachingAllocator>,
  Assignable<declared.ImportedMemoryPool, ours.ImportedMemoryPool>,
  Assignable<declared.PhysicalMemory, ours.PhysicalMemory>,
  Assignable<declared.AddressRange, ours.AddressRange>,
  Assignable<declared.DeviceBuffer, ours.DeviceBuffer>,
  Assignable<declared.DeviceArray<Float32Array>, ours.DeviceArray<Float32Array>>,
  Assignable<declared.HostBuffer, ours.HostBuffer>,
  Assignable<declared.ShareableHandle, ours.ShareableHandle>,
  Assignable<declared.CudaModule, ours.CudaModule>,
  Assignable<declared.CudaModule<SampleKernels>, ours.CudaModule<SampleKernels>>,
  Assignable<declared.CudaKernel, ours.CudaKernel>,
  Assignable<declared.CudaKernel<[bigint]>, ours.CudaKernel<[bigint]>>,
  Assignable<declared.UnixListener, ours.UnixListener>,
  Assignable<declared.UnixSocket, ours.UnixSocket>,
  Assignable<declared.Exporter, ours.Exporter>,
  Assignable<declared.Offer, ours.Offer>,
  Assignable<declared.Lease, ours.Lease>,
  Assignable<declared.Operator, ours.Operator>,
  Assignable<declared.MemoryStore, ours.MemoryStore>,
  Assignable<declared.StoreClient, ours.StoreClient>,
  Assignable<declared.StoredMemory, ours.StoredMemory>,
  Assignable<declared.MappedEntry, ours.MappedEntry>,
  Assignable<declared.Communicator, ours.Communicator>,
  Assignable<declared.Importer, ours.Importer>,
  Assignable<declared.RemoteOffer, ours.RemoteOffer>,
  Assignable<declared.ChannelProducer, ours.ChannelProducer>,
  Assignable<declared.Slot, ours.Slot>,
  Assignable<declared.ChannelConsumer, ours.ChannelConsumer>,
  Assignable<declared.ReceivedSlot, ours.ReceivedSlot>,
  Assignable<declared.CudaError, ours.CudaError>,
  Assignable<declared.CompileError, ours.CompileError>,
  Assignable<declared.SanitizerError, ours.SanitizerError>,
  Assignable<declared.CudaUnavailableError, ours.CudaUnavailableError>,
  Assignable<declared.SharingError, ours.SharingError>,
];

/** Each class's static members. */
export type StaticMembers = [
  Assignable<Statics<typeof declared.Cuda>, Statics<typeof ours.Cuda>>,
  Assignable<Statics<typeof declared.CudaDevice>, Statics<typeof ours.CudaDevice>>,
  Assignable<Statics<typeof declared.CudaStream>, Statics<typeof ours.CudaStream>>,
  Assignable<Statics<typeof declared.CudaEvent>, Statics<typeof ours.CudaEvent>>,
  Assignable<Statics<typeof declared.MemoryPool>, Statics<typeof ours.MemoryPool>>,
  Assignable<Statics<typeof declared.CachingAllocator>, Statics<typeof ours.CachingAllocator>>,
  Assignable<Statics<typeof declared.ImportedMemoryPool>, Statics<typeof ours.ImportedMemoryPool>>,
  Assignable<Statics<typeof declared.PhysicalMemory>, Statics<typeof ours.PhysicalMemory>>,
  Assignable<Statics<typeof declared.AddressRange>, Statics<typeof ours.AddressRange>>,
  Assignable<Statics<typeof declared.DeviceBuffer>, Statics<typeof ours.DeviceBuffer>>,
  Assignable<Statics<typeof declared.DeviceArray>, Statics<typeof ours.DeviceArray>>,
  Assignable<Statics<typeof declared.HostBuffer>, Statics<typeof ours.HostBuffer>>,
  Assignable<Statics<typeof declared.ShareableHandle>, Statics<typeof ours.ShareableHandle>>,
  Assignable<Statics<typeof declared.CudaModule>, Statics<typeof ours.CudaModule>>,
  Assignable<Statics<typeof declared.CudaKernel>, Statics<typeof ours.CudaKernel>>,
  Assignable<Statics<typeof declared.UnixListener>, Statics<typeof ours.UnixListener>>,
  Assignable<Statics<typeof declared.UnixSocket>, Statics<typeof ours.UnixSocket>>,
  Assignable<Statics<typeof declared.Exporter>, Statics<typeof ours.Exporter>>,
  Assignable<Statics<typeof declared.Offer>, Statics<typeof ours.Offer>>,
  Assignable<Statics<typeof declared.Lease>, Statics<typeof ours.Lease>>,
  Assignable<Statics<typeof declared.Operator>, Statics<typeof ours.Operator>>,
  Assignable<Statics<typeof declared.MemoryStore>, Statics<typeof ours.MemoryStore>>,
  Assignable<Statics<typeof declared.StoreClient>, Statics<typeof ours.StoreClient>>,
  Assignable<Statics<typeof declared.StoredMemory>, Statics<typeof ours.StoredMemory>>,
  Assignable<Statics<typeof declared.MappedEntry>, Statics<typeof ours.MappedEntry>>,
  Assignable<Statics<typeof declared.Communicator>, Statics<typeof ours.Communicator>>,
  Assignable<Statics<typeof declared.Importer>, Statics<typeof ours.Importer>>,
  Assignable<Statics<typeof declared.RemoteOffer>, Statics<typeof ours.RemoteOffer>>,
  Assignable<Statics<typeof declared.ChannelProducer>, Statics<typeof ours.ChannelProducer>>,
  Assignable<Statics<typeof declared.Slot>, Statics<typeof ours.Slot>>,
  Assignable<Statics<typeof declared.ChannelConsumer>, Statics<typeof ours.ChannelConsumer>>,
  Assignable<Statics<typeof declared.ReceivedSlot>, Statics<typeof ours.ReceivedSlot>>,
  Assignable<Statics<typeof declared.CudaError>, Statics<typeof ours.CudaError>>,
  Assignable<Statics<typeof declared.CompileError>, Statics<typeof ours.CompileError>>,
  Assignable<Statics<typeof declared.SanitizerError>, Statics<typeof ours.SanitizerError>>,
  Assignable<Statics<typeof declared.CudaUnavailableError>, Statics<typeof ours.CudaUnavailableError>>,
  Assignable<Statics<typeof declared.SharingError>, Statics<typeof ours.SharingError>>,
];

/** What an application expects of metadata: an interface, and a property that may be absent. */
interface ExpectedMetadata {
  shape: number[];
  unit?: string;
}

/** Metadata has the type that the application expects, and any JSON value's without one. */
export type Metadata = [
  Assignable<ExpectedMetadata | undefined, ours.RemoteOffer<ExpectedMetadata>["metadata"]>,
  Assignable<ours.JsonValue | undefined, ours.RemoteOffer["metadata"]>,
  Assignable<ours.RemoteOffer<ExpectedMetadata>, OfferOf<typeof ours.Importer.prototype.offer<ExpectedMetadata>>>,
  Assignable<ExpectedMetadata | undefined, ours.ChannelConsumer<ExpectedMetadata>["metadata"]>,
  Assignable<ExpectedMetadata | undefined, MetadataOfFrame<ours.ChannelConsumer<string, ExpectedMetadata>>>,
  Assignable<ours.JsonValue | undefined, MetadataOfFrame<ours.ChannelConsumer<string>>>,
  // @ts-expect-error: without a type, metadata may be any JSON value
  Assignable<ExpectedMetadata | undefined, ours.RemoteOffer["metadata"]>,
];
type OfferOf<Method extends (name: string) => Promise<unknown>> = Awaited<ReturnType<Method>>;
type MetadataOfFrame<Consumer extends { next(): Promise<ours.ReceivedSlot<unknown> | undefined> }> = NonNullable<
  Awaited<ReturnType<Consumer["next"]>>
>["metadata"];

/** Functions give what is declared, and take it: a declared argument type must be one of ours. */
export type Functions = [
  Assignable<typeof declared.open, typeof ours.open>,
  Assignable<typeof declared.prometheusText, typeof ours.prometheusText>,
  Assignable<typeof declared.refusalStatistics, typeof ours.refusalStatistics>,
  Assignable<typeof declared.struct, typeof ours.struct>,
  Assignable<ours.OpenOptions, declared.OpenOptions>,
  Assignable<ours.SanitizerAccess, declared.SanitizerAccess>,
  Assignable<ours.SanitizerCheck, declared.SanitizerCheck>,
  Assignable<ours.SanitizerReport, declared.SanitizerReport>,
  Assignable<ours.PoolOptions, declared.PoolOptions>,
  Assignable<ours.AllocateOptions, declared.AllocateOptions>,
  Assignable<Omit<ours.AllocateAsyncOptions, "stream">, Omit<declared.AllocateAsyncOptions, "stream">>,
  Assignable<ours.CachingAllocatorOptions, declared.CachingAllocatorOptions>,
  Assignable<ours.WaitOptions, declared.WaitOptions>,
  Assignable<ours.BenchmarkOptions, declared.BenchmarkOptions>,
  Assignable<ours.BenchmarkResult, declared.BenchmarkResult>,
  Assignable<Omit<ours.WrapOptions, "stream">, Omit<declared.WrapOptions, "stream">>,
  Assignable<ours.ArrayOptions, declared.ArrayOptions>,
  Assignable<ours.CopyOptions, declared.CopyOptions>,
  Assignable<ours.FillOptions, declared.FillOptions>,
  Assignable<ours.FieldType, declared.FieldType>,
  Assignable<ours.FieldValue, declared.FieldValue>,
  Assignable<ours.StructValue, declared.StructValue>,
  Assignable<ours.StructArgument<{ x: "f32" }>, declared.StructArgument<{ x: "f32" }>>,
  Assignable<Omit<ours.ReadOptions, "stream">, Omit<declared.ReadOptions, "stream">>,
  Assignable<Omit<ours.LaunchOptions, "stream">, Omit<declared.LaunchOptions, "stream">>,
  Assignable<ours.CompileOptions, declared.CompileOptions>,
  Assignable<ours.LoadModuleOptions, declared.LoadModuleOptions>,
  Assignable<ours.LinkImage, declared.LinkImage>,
  Assignable<ours.Dim3, declared.Dim3>,
  Assignable<ours.CacheConfig, declared.CacheConfig>,
  Assignable<ours.SharedMemoryCarveout, declared.SharedMemoryCarveout>,
  Assignable<ours.PotentialBlockSizeOptions, declared.PotentialBlockSizeOptions>,
  Assignable<ours.ActiveClustersOptions, declared.ActiveClustersOptions>,
  Assignable<ours.ParameterType, declared.ParameterType>,
  Assignable<ours.KernelArgument, declared.KernelArgument>,
  Assignable<ours.AnyKernels, declared.AnyKernels>,
  Assignable<ours.Pointer<Int8Array>, declared.Pointer<Int8Array>>,
  Assignable<ours.Pointer, declared.Pointer>,
  Assignable<ours.TypedArray, declared.TypedArray>,
  Assignable<ours.Access, declared.Access>,
  Assignable<ours.DeviceAttributeName, declared.DeviceAttributeName>,
];

/** The same the other way round: what we call by a declared name is what is declared by it. */
export type Types = [
  Assignable<declared.OpenOptions, ours.OpenOptions>,
  Assignable<declared.SanitizerAccess, ours.SanitizerAccess>,
  Assignable<declared.SanitizerCheck, ours.SanitizerCheck>,
  Assignable<declared.SanitizerReport, ours.SanitizerReport>,
  Assignable<declared.PoolOptions, ours.PoolOptions>,
  Assignable<declared.AllocateOptions, ours.AllocateOptions>,
  Assignable<declared.CachingAllocatorOptions, ours.CachingAllocatorOptions>,
  Assignable<declared.AllocateAsyncOptions, ours.AllocateAsyncOptions>,
  Assignable<declared.CachingAllocatorUsage, ours.CachingAllocatorUsage>,
  Assignable<declared.SizeClassUsage, ours.SizeClassUsage>,
  Assignable<declared.SlabPart, ours.SlabPart>,
  Assignable<declared.WaitOptions, ours.WaitOptions>,
  Assignable<declared.BenchmarkOptions, ours.BenchmarkOptions>,
  Assignable<declared.BenchmarkResult, ours.BenchmarkResult>,
  Assignable<declared.WrapOptions, ours.WrapOptions>,
  Assignable<declared.PhysicalMemoryOptions, ours.PhysicalMemoryOptions>,
  Assignable<declared.ReserveOptions, ours.ReserveOptions>,
  Assignable<declared.MapMemoryOptions, ours.MapMemoryOptions>,
  Assignable<declared.RangePart, ours.RangePart>,
  Assignable<declared.CopyOptions, ours.CopyOptions>,
  Assignable<declared.FillOptions, ours.FillOptions>,
  Assignable<declared.Struct<{ x: "f32" }>, ours.Struct<{ x: "f32" }>>,
  Assignable<declared.StructValue, ours.StructValue>,
  Assignable<declared.StructArgument<{ x: "f32" }>, ours.StructArgument<{ x: "f32" }>>,
  Assignable<declared.ReadOptions, ours.ReadOptions>,
  Assignable<declared.LaunchOptions, ours.LaunchOptions>,
  Assignable<declared.KernelAttributes, ours.KernelAttributes>,
  Assignable<declared.InstructionSupport, ours.InstructionSupport>,
  Assignable<declared.InstructionUse, ours.InstructionUse>,
  Assignable<declared.ExactInstruction, ours.ExactInstruction>,
  Assignable<declared.ApproximateInstruction, ours.ApproximateInstruction>,
  Assignable<declared.IgnoredInstruction, ours.IgnoredInstruction>,
  Assignable<declared.UnsupportedInstruction, ours.UnsupportedInstruction>,
  Assignable<declared.CacheConfig, ours.CacheConfig>,
  Assignable<declared.SharedMemoryCarveout, ours.SharedMemoryCarveout>,
  Assignable<declared.PotentialBlockSizeOptions, ours.PotentialBlockSizeOptions>,
  Assignable<declared.ActiveClustersOptions, ours.ActiveClustersOptions>,
  Assignable<declared.CompileOptions, ours.CompileOptions>,
  Assignable<declared.CompiledProgram, ours.CompiledProgram>,
  Assignable<declared.LoadModuleOptions, ours.LoadModuleOptions>,
  Assignable<declared.LinkImage, ours.LinkImage>,
  Assignable<declared.JsonValue, ours.JsonValue>,
  Assignable<declared.ExporterOptions, ours.ExporterOptions>,
  Assignable<declared.ExporterStatistics, ours.ExporterStatistics>,
  Assignable<declared.RefusalStatistics, ours.RefusalStatistics>,
  Assignable<declared.ImportRefusal, ours.ImportRefusal>,
  Assignable<declared.EventRefusal, ours.EventRefusal>,
  Assignable<declared.MemoryStoreOptions, ours.MemoryStoreOptions>,
  Assignable<declared.SavedEntry, ours.SavedEntry>,
  Assignable<declared.StoreClientOptions, ours.StoreClientOptions>,
  Assignable<declared.CreateEntryOptions, ours.CreateEntryOptions>,
  Assignable<declared.CreateOnceOptions, ours.CreateOnceOptions>,
  Assignable<declared.PublishEntryOptions, ours.PublishEntryOptions>,
  Assignable<declared.ShareMemoryOptions, ours.ShareMemoryOptions>,
  Assignable<declared.EntriesOptions, ours.EntriesOptions>,
  Assignable<declared.MapEntryOptions, ours.MapEntryOptions>,
  Assignable<declared.StoreEntry, ours.StoreEntry>,
  Assignable<declared.EntryMove, ours.EntryMove>,
  Assignable<declared.WakeEntryOptions, ours.WakeEntryOptions>,
  Assignable<declared.OffloadOptions, ours.OffloadOptions>,
  Assignable<declared.Reduction, ours.Reduction>,
  Assignable<declared.CommunicationType, ours.CommunicationType>,
  Assignable<declared.CollectiveOptions, ours.CollectiveOptions>,
  Assignable<declared.OperatorOptions, ours.OperatorOptions>,
  Assignable<declared.ListenerStatus, ours.ListenerStatus>,
  Assignable<declared.CommonStatus, ours.CommonStatus>,
  Assignable<declared.LeftOut, ours.LeftOut>,
  Assignable<declared.ExporterStatus, ours.ExporterStatus>,
  Assignable<declared.OfferStatus, ours.OfferStatus>,
  Assignable<declared.ProcessStatus, ours.ProcessStatus>,
  Assignable<declared.HolderStatus, ours.HolderStatus>,
  Assignable<declared.StoreStatus, ours.StoreStatus>,
  Assignable<declared.StoreStatistics, ours.StoreStatistics>,
  Assignable<declared.StoreLimits, ours.StoreLimits>,
  Assignable<declared.StoreEntryState, ours.StoreEntryState>,
  Assignable<declared.StoreEntryStatus, ours.StoreEntryStatus>,
  Assignable<declared.LeaseStatistics, ours.LeaseStatistics>,
  Assignable<declared.TrafficStatistics, ours.TrafficStatistics>,
  Assignable<declared.ChannelStatistics, ours.ChannelStatistics>,
  Assignable<declared.ConsumerStatistics, ours.ConsumerStatistics>,
  Assignable<declared.OfferOptions, ours.OfferOptions>,
  Assignable<declared.ChannelOptions, ours.ChannelOptions>,
  Assignable<declared.SendFrameOptions, ours.SendFrameOptions>,
  Assignable<declared.RecallOptions, ours.RecallOptions>,
  Assignable<declared.LeaseState, ours.LeaseState>,
  Assignable<declared.ImporterOptions, ours.ImporterOptions>,
  Assignable<declared.MapOptions, ours.MapOptions>,
  Assignable<declared.ConsumerOptions, ours.ConsumerOptions>,
  Assignable<declared.Peer, ours.Peer>,
  Assignable<declared.Dim3, ours.Dim3>,
  Assignable<declared.ParameterType, ours.ParameterType>,
  Assignable<declared.KernelArgument, ours.KernelArgument>,
  Assignable<declared.AnyKernels, ours.AnyKernels>,
  Assignable<declared.Pointer<Int8Array>, ours.Pointer<Int8Array>>,
  Assignable<declared.Pointer, ours.Pointer>,
  Assignable<KernelsOf<declared.Ptx<SampleKernels>>, KernelsOf<ours.Ptx<SampleKernels>>>,
  Assignable<string, ours.Ptx<SampleKernels>>,
  // @ts-expect-error: nothing says which kernels a string has
  Assignable<ours.Ptx<SampleKernels>, string>,
  Assignable<declared.TypedArray, ours.TypedArray>,
  Assignable<declared.TypedArrayConstructor<Uint8Array>, ours.TypedArrayConstructor<Uint8Array>>,
  Assignable<declared.Access, ours.Access>,
  Assignable<declared.DeviceAttributeName, ours.DeviceAttributeName>,
];

/** An interface, as well as a type alias, can list kernels. */
interface SampleKernels {
  fill: [target: ours.Pointer<Int32Array>, value: number];
}
/** The kernels that a `Ptx` lists, under a key that nobody else can name. */
type KernelsOf<Image extends string> = Image[Exclude<keyof Image, keyof string>];

type AttributeArgument = Parameters<ours.CudaDevice["attribute"]>[0];

/** Editors complete the names of attributes, and a mistyped one does not compile. */
export type AttributeNames = [
  Assignable<AttributeArgument, "multiProcessorCount">,
  // @ts-expect-error a letter is missing
  Assignable<AttributeArgument, "multiprocesorCount">,
  // @ts-expect-error a string that may be any
  Assignable<AttributeArgument, string>,
];
