/** Each method that takes a stream takes it alone and in an object, wherever else its options are. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import {
  Communicator,
  type CudaStream,
  DeviceBuffer,
  Exporter,
  Importer,
  MemoryStore,
  open,
  type OrStream,
  StoreClient,
  type StreamOption,
} from "../../mod.ts";
import { readNpy, readNpz, writeNpy, writeNpz } from "../../npy.ts";
import { openSafetensors, readSafetensors, writeSafetensors } from "../../safetensors.ts";
import { mapWeights, publishWeights } from "../../weights.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { inFolder } from "../support/folders.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";

/** Calls a method with the stream in either form. Returns what the method does. */
type Call = (options: OrStream<StreamOption>) => unknown;

/** The forms in which a call takes a stream. */
const forms: readonly ((stream: CudaStream) => OrStream<StreamOption>)[] = [
  (stream) => stream,
  (stream) => ({ stream }),
];

/** The methods that were checked, by their names. */
const tested = new Set<string>();

/** The method that a check is of: the first word of its name. */
function methodOf(name: string): string {
  return name.split(" ")[0]!;
}

/** Checks that a call uses the stream that it gets in each form: it refuses a stream that was disposed. */
async function checkUse(name: string, call: Call, { stream, gone }: { stream: CudaStream; gone: CudaStream }) {
  tested.add(methodOf(name));
  for (const form of forms) {
    const result: unknown = await call(form(stream));
    if (result instanceof DeviceBuffer) assert(result.stream === stream, name);
    const refused = async () => void await call(form(gone));
    await assertRejects(refused, ReferenceError, "it was disposed; pass another stream", name);
  }
}

/** Checks that what a call returns has the stream that it gets in each form. */
async function checkResult(name: string, call: Call, { stream, gone }: { stream: CudaStream; gone: CudaStream }) {
  tested.add(methodOf(name));
  for (const form of forms) {
    const result = await call(form(stream)) as { readonly stream: CudaStream } & Partial<Disposable>;
    assert(result.stream === stream && stream !== gone, name);
    result[Symbol.dispose]?.();
  }
}

testOnEachDriver("memory takes its stream alone or in an object", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  const gone = gpu.createStream();
  gone[Symbol.dispose]();
  using pool = gpu.createPool();
  using allocator = pool.createCachingAllocator();
  using buffer = pool.allocate(16, stream);
  using array = pool.allocateArray(Uint32Array, 4, { stream });
  using host = cuda.allocateHost(16);
  using managed = gpu.allocateManaged(4096);
  using image = gpu.createArray("u32", [2, 2]);
  const rows = buffer.pitched(Uint8Array, [2, 2], { pitch: 4 });
  const others = buffer.pitched(Uint8Array, [2, 2], { pitch: 4, byteOffset: 8 });
  const data = new Uint32Array(4);
  const calls: Record<string, Call> = {
    "MemoryPool.allocate": (options) => disposed(pool.allocate(16, options)),
    "MemoryPool.allocateArray": (options) => disposed(pool.allocateArray(Uint8Array, 16, options)),
    "MemoryPool.allocateArray of a shape": (options) =>
      disposed(pool.allocateArray(Uint8Array, { shape: [4, 4] }, options)),
    "MemoryPool.allocateArray of data": (options) => disposed(pool.allocateArray(data, options)),
    "MemoryPool.allocateAsync": async (options) => disposed(await pool.allocateAsync(16, options)),
    "CachingAllocator.allocate": (options) => disposed(allocator.allocate(16, options)),
    "CachingAllocator.allocateArray": (options) => disposed(allocator.allocateArray(Uint8Array, 16, options)),
    "CachingAllocator.allocateArray of data": (options) => disposed(allocator.allocateArray(data, options)),
    "CachingAllocator.allocateAsync": async (options) => disposed(await allocator.allocateAsync(16, options)),
    "CudaDevice.wrap": (options) => disposed(gpu.wrap(buffer.address, 16, options)),
    "DeviceBuffer.copyFrom": (options) => buffer.copyFrom(data, options),
    "DeviceBuffer.copyFrom a buffer": (options) => buffer.copyFrom(array, options),
    "DeviceBuffer.copyTo": (options) => buffer.copyTo(host, options),
    "DeviceBuffer.fill": (options) => buffer.fill(1, options),
    "DeviceBuffer.read": (options) => buffer.read(Uint8Array, options).then(() => {}),
    "DeviceBuffer.readSync": (options) => void buffer.readSync(Uint8Array, options),
    "DeviceBuffer.free": (options) => {
      const made = pool.allocate(16, stream);
      try {
        made.free(options);
      } finally {
        made[Symbol.dispose]();
      }
    },
    "DeviceArray.copyFrom": (options) => array.copyFrom(data, options),
    "DeviceArray.copyTo": (options) => array.copyTo(buffer, options),
    "DeviceArray.fill": (options) => array.fill(1, options),
    "DeviceArray.read": (options) => array.read(Uint32Array, options).then(() => {}),
    "DeviceArray.readSync": (options) => void array.readSync(Uint32Array, options),
    "DeviceArray.toTypedArray": (options) => array.toTypedArray(options).then(() => {}),
    "MemoryPool.allocatePitched": (options) => pool.allocatePitched(Uint8Array, [2, 2], options)[Symbol.dispose](),
    "PitchedArray.copyFrom": (options) => rows.copyFrom(new Uint8Array(4), options),
    "PitchedArray.copyTo": (options) => rows.copyTo(others, options),
    "PitchedArray.fill": (options) => rows.fill(1, options),
    "PitchedArray.read": (options) => rows.read(options).then(() => {}),
    "PitchedArray.readSync": (options) => void rows.readSync(options),
    "CudaArray.copyFrom": (options) => image.copyFrom(data, options),
    "CudaArray.copyTo": (options) => image.copyTo(buffer, options),
    "CudaArray.read": (options) => image.read(Uint32Array, options).then(() => {}),
    "DeviceBuffer.prefetch": (options) => managed.prefetch(gpu, options),
    "DeviceBuffer.discard": (options) => managed.discard(options),
  };
  for (const [name, call] of Object.entries(calls)) await checkUse(name, call, { stream, gone });
});

/** Disposes of a buffer, and returns it. */
function disposed<T extends DeviceBuffer>(buffer: T): T {
  buffer[Symbol.dispose]();
  return buffer;
}

testOnEachDriver("an object has the stream and the other options, and both older forms remain", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using array = pool.allocateArray(new Uint8Array(8), { stream });
  array.copyFrom(Uint8Array.of(1), { stream, byteOffset: 1 });
  array.copyFrom(Uint8Array.of(2), stream, { byteOffset: 2 });
  array.copyFrom(Uint8Array.of(3), undefined, { byteOffset: 3 });
  array.copyFrom(Uint8Array.of(4), { byteOffset: 4 });
  array.fill(5, { stream, begin: 5, end: 6 });
  array.fill(6, stream, { begin: 6, end: 7 });
  array.fill(7, { begin: 7 });
  assertEquals(await array.toTypedArray({ stream }), Uint8Array.of(0, 1, 2, 3, 4, 5, 6, 7));
  using target = pool.allocate(8, stream);
  target.fill(0, Object.assign(Object.create(null), { stream }));
  target.fill(0, Object.create({ stream }));
  target.fill(0, {});
  target.fill(9, { stream, byteLength: 1 });
  array.copyTo(target.subarray(1, 8), { stream, byteOffset: 6 });
  array.copyTo(target.subarray(4, 8), stream, { byteOffset: 6 });
  assertEquals(await target.read(Uint8Array, { stream, length: 6 }), Uint8Array.of(9, 6, 7, 0, 6, 7));
});

testOnEachDriver("a stream that is given twice, or is none, is refused with both forms of the call", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using array = pool.allocateArray(new Uint8Array(8), stream);
  // deno-lint-ignore no-explicit-any
  const untyped: any = array;
  const pools: { allocate(size: number, options: unknown): unknown } = pool as never;
  const inForms = "as in copyFrom(source, stream) or copyFrom(source, { stream, byteOffset })";
  const from = (...args: unknown[]) => () => untyped.copyFrom(new Uint8Array(1), ...args);
  assertThrows(from({ stream }, { byteOffset: 1 }), TypeError, `with two objects of options: give one, ${inForms}`);
  assertThrows(from(stream, { stream }), TypeError, `with two streams: give one, ${inForms}`);
  assertThrows(from(3), TypeError, `Cannot use 3 as a stream: give a CudaStream from CudaDevice.createStream, or`);
  assertThrows(from(array), TypeError, `Cannot use a DeviceArray as a stream`);
  assertThrows(from({ steam: stream }), TypeError, 'with the option "steam": there is no such option; did you mean');
  assertThrows(from({ stream: gpu }), TypeError, `Cannot use a CudaDevice as a stream: `);
  const allocating = ", as in allocate(byteLength, stream) or allocate(byteLength, { stream })";
  for (const wrong of [pool, gpu, "0", [stream], () => stream, new Date()]) {
    assertThrows(() => pools.allocate(1, wrong), TypeError, allocating);
  }
  assertThrows(() => pools.allocate(1, { stream, priority: 1 }), TypeError, "the only option is stream");
  assertThrows(() => untyped.free({ strm: stream }), TypeError, "did you mean");
  assertThrows(() => untyped.free(array), TypeError, "as in free(stream) or free({ stream })");
  await assertRejects(
    () => untyped.read(Uint8Array, 3),
    TypeError,
    "give a CudaStream, or an object, such as { length",
  );
  assertEquals(pool.usage().used > 0, true);
  assertEquals(await array.read(Uint8Array, stream), new Uint8Array(8));
});

testOnEachDriver("a graph takes its stream alone or in an object", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  const gone = gpu.createStream();
  gone[Symbol.dispose]();
  using graph = stream.capture(() => {});
  using exec = graph.instantiate();
  const calls: Record<string, Call> = {
    "CudaGraphExec.launch": (options) => exec.launch(options),
    "CudaGraphExec.upload": (options) => exec.upload(options),
  };
  for (const [name, call] of Object.entries(calls)) await checkUse(name, call, { stream, gone });
  stream.synchronize();
});

test("sharing, stores and collectives take their stream alone or in an object", {
  skip: shimRefusal() ?? false,
}, async () => {
  await inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    const gone = gpu.createStream();
    gone[Symbol.dispose]();
    const streams = { stream, gone };
    using pool = gpu.createPool({ handleType: "posix-fd" });
    using array = pool.allocateArray(new Float32Array(4), stream);
    using other = pool.allocateArray(new Float32Array(4), stream);

    await using communicator = await Communicator.create(gpu, { id: Communicator.createId(cuda), rank: 0, size: 1 });
    const collectives: Record<string, Call> = {
      "Communicator.allReduce": (options) => communicator.allReduce(array, array, "sum", options),
      "Communicator.reduce": (options) => communicator.reduce(array, array, 0, "sum", options),
      "Communicator.broadcast": (options) => communicator.broadcast(array, 0, options),
      "Communicator.allGather": (options) => communicator.allGather(array, other, options),
      "Communicator.reduceScatter": (options) => communicator.reduceScatter(array, other, "sum", options),
      "Communicator.allToAll": (options) => communicator.allToAll(array, other, options),
      "Communicator.send and receive": (options) =>
        Communicator.group(() => {
          communicator.send(array, 0, options);
          communicator.receive(other, 0, options);
        }),
    };
    for (const [name, call] of Object.entries(collectives)) await checkUse(name, call, streams);
    // A call that is repeated takes a shorter way.
    for (let repetition = 0; repetition < 4; repetition++) communicator.allReduce(array, array, "sum", stream);

    await using exporter = Exporter.listen(`${folder}/exporter`);
    await using channel = exporter.createChannel("frames", { pool, slots: 2, slotByteLength: 64 });
    await using importer = await Importer.connect(cuda, exporter.path);
    await checkUse("Exporter.offer", (options) => exporter.offer("offer", other, options).withdraw(), streams);
    exporter.offer("weights", array, stream);
    const remote = await importer.offer("weights");
    await checkResult("RemoteOffer.map", (options) => remote.map(options), streams);
    await checkResult("RemoteOffer.mapArray", (options) => remote.mapArray(options), streams);
    await checkResult("RemoteOffer.mapArray of a type", (options) => remote.mapArray(Uint8Array, options), streams);
    await using consumer = await importer.channel("frames", stream);
    for (const method of checkedByHand) tested.add(method);
    for (const form of forms) {
      const slot = await channel.reserve();
      assertThrows(() => channel.send(slot, form(gone)), ReferenceError, "it was disposed");
      channel.send(slot, form(stream));
      const received = (await consumer.next())!;
      assert(received.buffer.stream === stream);
      assertThrows(() => received.release(form(gone)), ReferenceError, "it was disposed");
      received.release(form(stream));
    }

    await using store = MemoryStore.listen(cuda, `${folder}/store`);
    await using client = await StoreClient.connect(cuda, store.path);
    for (const form of forms) {
      await using made = await client.create("made", 16, form(stream));
      assert(made.buffer.stream === stream);
      await assertRejects(() => made.publish(form(gone)), ReferenceError, "it was disposed");
      await made.publish({ ...form(stream) instanceof Object ? { stream } : {}, metadata: 1 });
    }
    {
      await using made = await client.create("old", 16);
      await made.publish(stream, { metadata: 2 });
    }
    await checkResult("StoreClient.map", (options) => client.map("made", options), streams);
    await checkResult("StoreClient.mapEntry", async (options) => {
      using entry = await client.mapEntry("made", options);
      return { stream: entry.buffer.stream };
    }, streams);

    await writeSafetensors({ array }, `${folder}/file`, stream);
    await using weights = await publishWeights(client, "weights", `${folder}/file`);
    assertEquals(weights.size, 1);
    await checkResult("mapWeights", async (options) => {
      await using mapped = await mapWeights(client, "weights", options);
      return { stream: mapped.buffer.stream };
    }, streams);
  });
});

/** The methods that the test of sharing checks without a table. */
const checkedByHand = [
  "Communicator.receive",
  "ChannelProducer.send",
  "Importer.channel",
  "ReceivedSlot.release",
  "StoreClient.create",
  "StoredMemory.publish",
];
/** The methods of captures, whose stream is one of the capture: their own test checks them. */
const ofCaptures = ["GraphCapture.add", "GraphCapture.dependencies"];

test("files take their stream alone or in an object", async () => {
  await inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    const gone = gpu.createStream();
    gone[Symbol.dispose]();
    using array = gpu.currentPool.allocateArray(new Float32Array(4), stream);
    const calls: Record<string, Call> = {
      writeNpy: (options) => writeNpy(array, `${folder}/npy`, options),
      readNpy: async (options) => disposed(await readNpy(`${folder}/npy`, options)),
      writeNpz: (options) => writeNpz({ array }, `${folder}/npz`, options),
      readNpz: async (options) => {
        using arrays = await readNpz(`${folder}/npz`, options);
        return arrays.array;
      },
      writeSafetensors: (options) => writeSafetensors({ array }, `${folder}/safetensors`, options),
      readSafetensors: async (options) => {
        using tensors = await readSafetensors(`${folder}/safetensors`, options);
        return tensors.get("array");
      },
      "SafetensorsFile.load": async (options) => {
        await using file = await openSafetensors(`${folder}/safetensors`);
        await file.load(array, options);
      },
    };
    for (const [name, call] of Object.entries(calls)) await checkUse(name, call, { stream, gone });
  });
});

test("each method of the public classes that takes a stream in both forms is tested here", {
  skip: shimRefusal() ?? false,
}, () => {
  const api = readFileSync(new URL("../api.ts", import.meta.url), "utf8");
  const classes = api.matchAll(/^export declare class (\w+)[^\n]*\{\n([^]*?)^\}/gm);
  const methods = [...classes].flatMap(([, name, body]) => {
    const heads = body!.matchAll(/^ {2}(?:static )?(\w+)(?:<[^(]*>)?\(((?:[^()]|\([^)]*\))*)\)/gm);
    return [...heads].filter(([, , parameters]) => parameters!.includes("OrStream<")).map(([, own]) =>
      `${name}.${own}`
    );
  });
  assert(methods.length > 40);
  assertEquals(methods.filter((method) => !tested.has(method) && !ofCaptures.includes(method)), []);
});
