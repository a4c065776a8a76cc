/**
 * An object of every public class, before and after its disposal, and the string that it must print as.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import process from "node:process";
import * as poolpass from "../../mod.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";
import { Gate } from "../support/gate.ts";

const {
  Communicator,
  Exporter,
  Importer,
  MemoryStore,
  open,
  Operator,
  ShareableHandle,
  StoreClient,
  UnixListener,
  UnixSocket,
} = poolpass;

/** Called with an object and its expected string, in which `#` stands for any decimal or hexadecimal number. */
export type Visit = (object: object, text: string) => void;

const ptx = `.version 7.0
.target sm_60
.address_size 64
.visible .global .align 4 .b8 table[16];
.visible .entry scale(.param .u64 x, .param .f32 by, .param .align 4 .b8 size[12]) { ret; }
.visible .entry clear() { ret; }
`;

/** The names of the classes that mod.ts exports, except errors, which every runtime prints itself. */
export function publicClasses(): string[] {
  return Object.entries(poolpass).filter(([, value]) => isClass(value) && !(value.prototype instanceof Error))
    .map(([name]) => name);
}

function isClass(value: unknown): value is new () => object {
  return typeof value === "function" && /^class\b/.test(Function.prototype.toString.call(value));
}

/**
 * Makes objects of all public classes on the software device, and visits each in every state that prints differently.
 */
export async function visitObjects(visit: Visit): Promise<void> {
  // Some memory is left until the Cuda object is disposed.
  const cuda = open({ driver: "software", softwareDevices: 2, sanitize: false });
  const gpu = cuda.device(0);
  visit(cuda, "Cuda { software, 2 devices, CUDA #.# }");
  visit(cuda.device(1), "CudaDevice { device 1, poolpass software device, GPU-706f6f6c-7061-7373-2073-6f6674776101 }");
  visitMemory(cuda, visit);
  visitVirtualMemory(cuda, visit);
  visitStreams(cuda, visit);
  await visitCommunicators(cuda, visit);
  visitModule(gpu, visit);
  const folder = mkdtempSync("/tmp/poolpass-printing-");
  try {
    await visitSockets(`${folder}/socket`, visit);
    await visitSharing(cuda, `${folder}/exporter`, visit);
    await visitChannel(cuda, `${folder}/exporter`, visit);
    await visitStore(cuda, `${folder}/store`, visit);
  } finally {
    rmSync(folder, { recursive: true });
  }
  visitWhatCudaLeaves(cuda, visit);
}

function visitMemory(cuda: poolpass.Cuda, visit: Visit): void {
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  visit(pool, "MemoryPool { device 0, 0 buffers, 0 of 0 bytes in use }");
  const buffer = pool.allocate(1);
  visit(pool, "MemoryPool { device 0, 1 buffer, # of # bytes in use }");
  visit(pool.snapshot(), "MemorySnapshot { 1 pool }");
  visit(buffer, "DeviceBuffer { device 0, 1 byte, # }");
  const array = pool.allocateArray(Float32Array, 10);
  visit(array, "DeviceArray { device 0, Float32Array(10), 40 bytes, # }");
  visit(array.subarray(2, 4), "DeviceArray { device 0, Float32Array(2), 8 bytes, # }");
  array.free();
  visit(array, "DeviceArray { device 0, Float32Array(10), 40 bytes, freed }");
  const allocator = pool.createCachingAllocator();
  visit(allocator, "CachingAllocator { device 0, 0 buffers, 0 of 0 bytes in use }");
  allocator[Symbol.dispose]();
  visit(allocator, "CachingAllocator { device 0, disposed }");
  withoutWarning(() => pool[Symbol.dispose]());
  visit(pool, "MemoryPool { device 0, disposed, 1 buffer not freed }");
  buffer.free();
  visit(buffer, "DeviceBuffer { device 0, 1 byte, freed }");
  visit(pool, "MemoryPool { device 0, disposed }");
  visit(gpu.defaultPool, "MemoryPool { device 0, default, 0 buffers, # of # bytes in use }");
  const hostPool = cuda.createHostPool({ handleType: "posix-fd", numaNode: 0 });
  visit(cuda.snapshot(), "MemorySnapshot { # pools }");
  visit(hostPool, "MemoryPool { host, posix-fd, 0 buffers, # of # bytes in use }");
  const inHost = hostPool.allocate(64, gpu.defaultStream);
  visit(inHost, "DeviceBuffer { host, 64 bytes, # }");
  inHost.free();
  hostPool[Symbol.dispose]();
  visit(hostPool, "MemoryPool { host, posix-fd, disposed }");
  const managedPool = cuda.createManagedPool();
  visit(managedPool, "MemoryPool { managed, 0 buffers, # of # bytes in use }");
  const managed = managedPool.allocate(64, gpu.defaultStream);
  visit(managed, "DeviceBuffer { managed, 64 bytes, # }");
  managed.free();
  managedPool[Symbol.dispose]();
  visit(managedPool, "MemoryPool { managed, disposed }");
  const rows = gpu.defaultPool.allocatePitched(Float32Array, [4, 2, 2]);
  visit(rows, "PitchedArray { device 0, Float32Array 4 x 2 x 2, pitch 512, slicePitch 1024, # }");
  const map = gpu.createTensorMap(rows, { box: [1, 2, 4] });
  visit(map, "TensorMap { float32[2, 2, 4] }");
  rows[Symbol.dispose]();
  visit(rows, "PitchedArray { device 0, Float32Array 4 x 2 x 2, pitch 512, slicePitch 1024, freed }");
  visit(map, "TensorMap { float32[2, 2, 4], memory freed }");
  const layers = gpu.createArray("f16", [8, 4, 3], { channels: 2, layered: true });
  visit(layers, "CudaArray { device 0, f16 x 2, 8 x 4 x 3, layered }");
  const texture = gpu.createTexture(layers);
  visit(texture, "CudaTexture { device 0, CudaArray 8 x 4 x 3 }");
  texture[Symbol.dispose]();
  visit(texture, "CudaTexture { device 0, CudaArray 8 x 4 x 3, disposed }");
  layers[Symbol.dispose]();
  const mipmapped = gpu.createMipmappedArray("u8", [16, 8], { surface: true });
  visit(mipmapped, "CudaMipmappedArray { device 0, u8, 16 x 8, 5 levels }");
  const surface = gpu.createSurface(mipmapped.level(1));
  visit(surface, "CudaSurface { device 0, CudaArray 8 x 4 }");
  surface[Symbol.dispose]();
  visit(surface, "CudaSurface { device 0, CudaArray 8 x 4, disposed }");
  mipmapped[Symbol.dispose]();
  visit(mipmapped, "CudaMipmappedArray { device 0, u8, 16 x 8, 5 levels, disposed }");
  visit(layers, "CudaArray { device 0, f16 x 2, 8 x 4 x 3, layered, disposed }");
  const host = cuda.allocateHost(4096);
  visit(host, "HostBuffer { host, 4096 bytes, page-locked }");
  const inHostBuffer = host.pitched(Uint8Array, [64, 4]);
  visit(inHostBuffer, "PitchedArray { host, Uint8Array 64 x 4, pitch 64, page-locked }");
  host[Symbol.dispose]();
  visit(inHostBuffer, "PitchedArray { host, Uint8Array 64 x 4, pitch 64, disposed }");
  visit(host, "HostBuffer { host, 4096 bytes, disposed }");
}

function visitVirtualMemory(cuda: poolpass.Cuda, visit: Visit): void {
  const gpu = cuda.device(0);
  const memory = gpu.createMemory(1, { handleType: "posix-fd" });
  visit(memory, "PhysicalMemory { device 0, 2097152 bytes, posix-fd }");
  using handle = memory.exportHandle();
  using imported = gpu.importMemory(handle, memory.byteLength);
  visit(imported, "PhysicalMemory { device 0, 2097152 bytes, imported }");
  const range = cuda.reserveAddresses(2 ** 22);
  visit(range, "AddressRange { #, 4194304 bytes, 0 mapped }");
  const buffer = range.map(memory);
  visit(range, "AddressRange { #, 4194304 bytes, 2097152 mapped }");
  visit(buffer, "DeviceBuffer { device 0, 2097152 bytes, # }");
  memory[Symbol.dispose]();
  visit(memory, "PhysicalMemory { device 0, 2097152 bytes, disposed }");
  range[Symbol.dispose]();
  visit(range, "AddressRange { #, 4194304 bytes, disposed }");
  visit(buffer, "DeviceBuffer { device 0, 2097152 bytes, freed }");
}

function visitStreams(cuda: poolpass.Cuda, visit: Visit): void {
  const gpu = cuda.device(0);
  using gate = new Gate(cuda);
  const stream = gpu.createStream({ nonBlocking: true });
  const event = gpu.createEvent();
  visit(gpu.defaultStream, "CudaStream { device 0, default, idle }");
  visit(stream, "CudaStream { device 0, idle }");
  visit(event, "CudaEvent { device 0, done }");
  gate.hold(stream);
  stream.record(event);
  visit(stream, "CudaStream { device 0, busy }");
  visit(event, "CudaEvent { device 0, pending }");
  gate.open();
  stream.synchronize();
  visitGraphs(stream, event, visit);
  event[Symbol.dispose]();
  stream[Symbol.dispose]();
  visit(stream, "CudaStream { device 0, disposed }");
  visit(event, "CudaEvent { device 0, disposed }");
}

const Point = poolpass.struct({ x: "f32", y: "f32" });

function visitGraphs(stream: poolpass.CudaStream, event: poolpass.CudaEvent, visit: Visit): void {
  const capture = stream.beginCapture({ arguments: { a: 2.5, point: Point({ x: 1, y: 2 }) } });
  const buffer = stream.device.createPool().allocate(64, stream);
  stream.record(event);
  visit(stream, "CudaStream { device 0, capturing }");
  visit(event, "CudaEvent { device 0, captured }");
  visit(capture, "GraphCapture { device 0, active }");
  visit(capture.arguments.a, "GraphArgument { a: 2.5 }");
  visit(capture.arguments.point, "GraphArgument { point: StructValue { 8 bytes } }");
  buffer.free();
  const graph = capture.end();
  visit(capture, "GraphCapture { device 0, ended }");
  visit(graph, "CudaGraph { device 0, 2 nodes }");
  visit(graph.nodes[0]!, "GraphNode { allocate }");
  visit(graph.nodes[1]!, "GraphNode { free }");
  const byHand = stream.device.createGraph();
  visit(byHand.addEmpty({ name: "first" }), 'GraphNode { empty, "first" }');
  const condition = byHand.createCondition();
  visit(condition, "GraphCondition { #, not tested yet }");
  const node = byHand.addConditional(condition, { type: "while" });
  visit(condition, "GraphCondition { #, tested }");
  visit(node.bodies[0]!, "CudaGraph { device 0, body, 0 nodes }");
  byHand[Symbol.dispose]();
  const exec = graph.instantiate();
  visit(exec, "CudaGraphExec { device 0 }");
  exec[Symbol.dispose]();
  graph[Symbol.dispose]();
  visit(exec, "CudaGraphExec { device 0, disposed }");
  visit(graph, "CudaGraph { device 0, disposed }");
}

function visitModule(gpu: poolpass.CudaDevice, visit: Visit): void {
  const module = gpu.loadModule(ptx);
  const kernel = module.kernel("scale");
  const global = module.getGlobal("table");
  visit(module, "CudaModule { device 0, kernels: scale, clear }");
  visit(kernel, "CudaKernel { device 0, scale(u64, f32, 12 bytes) }");
  visit(global, "DeviceBuffer { device 0, 16 bytes, # }");
  module[Symbol.dispose]();
  visit(module, "CudaModule { device 0, disposed }");
  visit(kernel, "CudaKernel { device 0, scale(u64, f32, 12 bytes), disposed }");
  visit(global, "DeviceBuffer { device 0, 16 bytes, freed }");
  const entries = Array.from({ length: 10 }, (_, index) => `.visible .entry kernel${index}() { ret; }\n`);
  using large = gpu.loadModule(`${ptx.split("\n").slice(0, 3).join("\n")}\n${entries.join("")}`);
  const names = Array.from({ length: 8 }, (_, index) => `kernel${index}`).join(", ");
  visit(large, `CudaModule { device 0, kernels: ${names} and 2 more }`);
}

async function visitSockets(path: string, visit: Visit): Promise<void> {
  const listener = UnixListener.listen(path);
  visit(listener, `UnixListener { ${path} }`);
  const accepted = listener.accept();
  const socket = await UnixSocket.connect(path);
  await (await accepted)[Symbol.asyncDispose]();
  visit(socket, `UnixSocket { process ${process.pid} }`);
  await socket[Symbol.asyncDispose]();
  await listener[Symbol.asyncDispose]();
  visit(socket, `UnixSocket { process ${process.pid}, disposed }`);
  visit(listener, `UnixListener { ${path}, disposed }`);
  const fabric = ShareableHandle.fromBytes(new Uint8Array(64));
  visit(fabric, "ShareableHandle { fabric }");
}

async function visitSharing(cuda: poolpass.Cuda, path: string, visit: Visit): Promise<void> {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(256);
  const handle = pool.exportHandle();
  visit(handle, `ShareableHandle { posix-fd ${handle.fd} }`);
  const imported = gpu.importPool(handle);
  handle[Symbol.dispose]();
  visit(handle, "ShareableHandle { posix-fd, disposed }");
  const mapped = imported.importPointer(buffer.exportPointer(), 128);
  visit(imported, "ImportedMemoryPool { device 0, 1 mapped }");
  visit(mapped, "DeviceBuffer { device 0, 128 bytes, # }");
  mapped.free();
  imported[Symbol.dispose]();
  visit(imported, "ImportedMemoryPool { device 0, disposed }");

  const exporter = Exporter.listen(path);
  visit(exporter, `Exporter { ${path}, 0 offers, 0 importers }`);
  const offer = exporter.offer("weights", buffer);
  const whole = exporter.offer("all of it", pool);
  const importer = await Importer.connect(cuda, path);
  const remote = await importer.offer("weights");
  const remoteWhole = await importer.offer("all of it");
  visit(exporter, `Exporter { ${path}, 2 offers, 1 importer }`);
  visit(importer, `Importer { process ${process.pid}, 2 offers, 0 mapped }`);
  visit(whole, "Offer { all of it, whole pool, 0 leases }");
  visit(remote, "RemoteOffer { weights, buffer, 256 bytes }");
  visit(remoteWhole, "RemoteOffer { all of it, whole pool }");
  const weights = await remote.map();
  visit(importer, `Importer { process ${process.pid}, 2 offers, 1 mapped }`);
  await waitUntil(() => offer.leases[0]?.state === "held");
  const lease = offer.leases[0]!;
  visit(lease, `Lease { weights, process ${process.pid}, held }`);
  visit(offer, "Offer { weights, buffer, 256 bytes, 1 lease }");
  weights.free();
  await offer.released();
  offer.withdraw();
  whole.withdraw();
  await offer.ended();
  visit(offer, "Offer { weights, buffer, 256 bytes, 0 leases, withdrawn }");
  visit(lease, `Lease { weights, process ${process.pid}, ended }`);
  await importer[Symbol.asyncDispose]();
  visit(importer, `Importer { process ${process.pid}, disposed }`);
  visit(remote, "RemoteOffer { weights, buffer, 256 bytes, withdrawn }");
  await exporter[Symbol.asyncDispose]();
  visit(exporter, `Exporter { ${path}, disposed }`);
}

async function visitStore(cuda: poolpass.Cuda, path: string, visit: Visit): Promise<void> {
  const store = MemoryStore.listen(cuda, path, { standby: `${path}.standby` });
  visit(store, `MemoryStore { ${path}, 0 entries, 0 clients }`);
  const standby = MemoryStore.listen(cuda, path, { standby: `${path}.standby` });
  visit(standby, `MemoryStore { ${path}, standby }`);
  await standby[Symbol.asyncDispose]();
  const client = await StoreClient.connect(cuda, path);
  visit(client, `StoreClient { ${path}, holds 0 }`);
  const memory = await client.create("weights", 64);
  visit(memory, "StoredMemory { weights, 64 bytes, new }");
  const entry = await memory.publish();
  visit(memory, "StoredMemory { weights, 64 bytes, published }");
  visit(entry, "MappedEntry { weights, 64 bytes, generation 1 }");
  visit(store, `MemoryStore { ${path}, 1 entry, 1 client }`);
  await memory[Symbol.asyncDispose]();
  visit(memory, "StoredMemory { weights, 64 bytes, disposed }");
  visit(entry, "MappedEntry { weights, 64 bytes, disposed }");
  const operator = await Operator.connect(path);
  visit(operator, `Operator { ${path}, process ${process.pid}, 0 requests }`);
  await operator[Symbol.asyncDispose]();
  visit(operator, `Operator { ${path}, not connected, 0 requests }`);
  await client[Symbol.asyncDispose]();
  visit(client, `StoreClient { ${path}, disposed }`);
  await store[Symbol.asyncDispose]();
  visit(store, `MemoryStore { ${path}, disposed }`);
}

async function visitCommunicators(cuda: poolpass.Cuda, visit: Visit): Promise<void> {
  const options = () => ({ id: Communicator.createId(cuda), rank: 0, size: 1 });
  const communicator = await Communicator.create(cuda.device(1), options());
  visit(communicator, "Communicator { rank 0 of 1, device 1, open }");
  await communicator[Symbol.asyncDispose]();
  visit(communicator, "Communicator { rank 0 of 1, device 1, disposed }");
  const aborted = await Communicator.create(cuda.device(0), options());
  await aborted.abort();
  visit(aborted, "Communicator { rank 0 of 1, device 0, aborted }");
}

async function visitChannel(cuda: poolpass.Cuda, path: string, visit: Visit): Promise<void> {
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  await using exporter = Exporter.listen(path);
  const producer = exporter.createChannel("frames", { pool, slots: 2, slotByteLength: 64 });
  await using importer = await Importer.connect(cuda, path);
  const consumer = await importer.channel("frames");
  visit(consumer, "ChannelConsumer { frames, 0 frames ready, 0 held }");
  const slot = await producer.reserve();
  visit(slot, "Slot { device 0, slot #, 64 bytes, # }");
  visit(producer, "ChannelProducer { frames, 1 of 2 slots free, 1 consumer, 0 frames }");
  producer.send(slot);
  visit(slot, "Slot { device 0, slot #, 64 bytes, sent or returned }");
  const received = (await consumer.next())!;
  visit(consumer, "ChannelConsumer { frames, 0 frames ready, 1 held }");
  visit(received, "ReceivedSlot { device 0, slot #, frame 1, 64 bytes }");
  received.release();
  visit(received, "ReceivedSlot { device 0, slot #, frame 1, 64 bytes, released }");
  producer.end();
  visit(producer, "ChannelProducer { frames, # of 2 slots free, 1 consumer, 1 frame, ended }");
  assertEquals(await consumer.next(), undefined);
  visit(consumer, "ChannelConsumer { frames, 0 frames ready, 0 held, ended }");
  await consumer[Symbol.asyncDispose]();
  visit(consumer, "ChannelConsumer { frames, disposed }");
  await producer[Symbol.asyncDispose]();
  visit(producer, "ChannelProducer { frames, disposed }");
}

/** Visits the objects of a `Cuda` object that was disposed first. */
function visitWhatCudaLeaves(cuda: poolpass.Cuda, visit: Visit): void {
  const gpu = cuda.device(0);
  const pool = gpu.createPool();
  const left: [object, string][] = [
    [pool.allocate(8), "DeviceBuffer { device 0, 8 bytes, Cuda disposed }"],
    [pool, "MemoryPool { device 0, disposed, 1 buffer not freed }"],
    [gpu.defaultPool, "MemoryPool { device 0, default, disposed }"],
    [gpu, "CudaDevice { device 0, disposed }"],
    [gpu.defaultStream, "CudaStream { device 0, default, disposed }"],
    [gpu.createStream(), "CudaStream { device 0, disposed }"],
    [gpu.createEvent(), "CudaEvent { device 0, disposed }"],
    [gpu.loadModule(ptx), "CudaModule { device 0, disposed }"],
    [cuda.allocateHost(8), "HostBuffer { host, 8 bytes, disposed }"],
    [gpu.createMemory(1), "PhysicalMemory { device 0, 2097152 bytes, disposed }"],
    [cuda.reserveAddresses(1), "AddressRange { #, 2097152 bytes, disposed }"],
    [cuda, "Cuda { software, disposed }"],
  ];
  withoutWarning(() => cuda[Symbol.dispose]());
  for (const [object, text] of left) visit(object, text);
}

/** Runs a function that warns of leaked buffers, and hides the warning. */
function withoutWarning(body: () => void): void {
  const { warn } = console;
  console.warn = () => {};
  try {
    body();
  } finally {
    console.warn = warn;
  }
}
