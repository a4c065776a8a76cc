/**
 * Mistakes in options are named: names that do not exist, values of a wrong kind, and values that are no options at all.
 * One table has every function and method with options; a test over the sources finds those that are missing in it.
 */
import { assert, assertEquals, assertInstanceOf, assertStringIncludes } from "@std/assert";
import { readFileSync } from "node:fs";
import * as poolpass from "../mod.ts";
import { ptx } from "../kernels/saxpy.ts";
import { shimRefusal } from "../ffi/native/shim/shim.ts";
import { waitUntil } from "../src/support/waiting/waiting.ts";
import { inFolder } from "./support/folders.ts";
import { test } from "./support/test.ts";

const { Communicator, Exporter, Importer, MemoryStore, open, Operator, StoreClient, UnixListener, UnixSocket } =
  poolpass;
const skip = shimRefusal() ?? false;

/** Options of any type. */
// deno-lint-ignore no-explicit-any
type Options = any;
/** Calls a function with options. Whatever it returns may be a promise. */
type Call = (options: Options) => unknown;

/** A function or method with options. */
interface Taker {
  readonly call: Call;
  /** Options that must be given. */
  readonly required?: object;
}

/** An option with values of a wrong kind, besides those of `wrongValues`. */
const wrongValuesOf: Readonly<Record<string, readonly unknown[]>> = {
  nonBlocking: ["yes", 1],
  channels: ["4"],
  origin: [[0, "1"], 4],
  view: [{ format: 8 }, { level: 1 }],
  timing: [1],
  priority: ["high"],
  window: ["3"],
  maxRegisters: [32n],
  lineInfo: [1],
  driver: ["cudda"],
};

class Unrelated {}
const wrongValues: readonly unknown[] = ["wrong", new Unrelated(), null];
/** Options that take any JSON value, and one that JSON cannot represent. */
const metadataValues: readonly unknown[] = [() => {}, 1n, NaN, new Map(), { shape: new Int32Array(2) }, [undefined]];
/** The web's own functions take null for no signal. */
const signalValues: readonly unknown[] = ["wrong", new Unrelated()];

/** Options for which any string has the right type. */
const textOptions = ["cudart", "nvrtc", "compileCache", "name", "architecture", "set", "trace"];

function wrongValuesFor(name: string): readonly unknown[] {
  if (name === "metadata") return metadataValues;
  if (name === "signal") return signalValues;
  if (name === "arguments") return [5, "text", null, []];
  if (textOptions.includes(name)) return [5, null];
  return [...wrongValues, ...wrongValuesOf[name] ?? []];
}

/** Calls the body with every function and method that takes options, by its name. */
async function withTakers(body: (takers: Readonly<Record<string, Taker>>) => Promise<void>): Promise<void> {
  await inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using graph = stream.capture(() => {});
    using exec = graph.instantiate();
    using byHand = gpu.createGraph();
    const child = gpu.createGraph();
    using captured = gpu.createStream({ nonBlocking: true });
    using capture = captured.beginCapture();
    using event = gpu.createEvent();
    using pool = gpu.createPool({ handleType: "posix-fd" });
    using allocator = pool.createCachingAllocator();
    using memory = gpu.createMemory(1);
    using managed = gpu.allocateManaged(64);
    using range = cuda.reserveAddresses(64 * memory.byteLength);
    range.map(memory);
    using module = gpu.loadModule(ptx);
    const kernel = module.kernel("saxpy");
    using array = pool.allocateArray(Float32Array, 4, stream);
    using other = pool.allocate(16, stream);
    using host = cuda.allocateHost(16);
    using rows = pool.allocatePitched(Uint8Array, [4], stream);
    using matrix = pool.allocate(4096, stream);
    using image = gpu.createArray("u8", [4, 4]);
    await using listener = UnixListener.listen(`${folder}/socket`);
    const accepting = listener.accept();
    await using socket = await UnixSocket.connect(`${folder}/socket`);
    await using _accepted = await accepting;
    await using exporter = Exporter.listen(`${folder}/exporter`);
    const offer = exporter.offer("weights", array);
    await using channel = exporter.createChannel("frames", { pool, slots: 2, slotByteLength: 64 });
    await using importer = await Importer.connect(cuda, exporter.path);
    await using operator = await Operator.connect(exporter.path);
    await using store = MemoryStore.listen(cuda, `${folder}/store`);
    await using client = await StoreClient.connect(cuda, store.path);
    await using stored = await client.create("stored", 1);
    await using published = await client.create("published", 1);
    const entry = await published.publish();
    const remote = await importer.offer("weights");
    using _weights = await remote.map();
    await waitUntil(() => offer.leases[0]?.state === "held");
    const lease = offer.leases[0]!;
    await using consumer = await importer.channel("frames");
    channel.send(await channel.reserve());
    using received = (await consumer.next())!;
    using slot = await channel.reserve();
    const path = `${folder}/other`;
    const id = Communicator.createId(cuda);
    await using communicator = await Communicator.create(gpu, { id, rank: 0, size: 1 });
    await body({
      "open": { call: (options) => open(options), required: { driver: "software" } },
      "Cuda.compile": { call: (options) => cuda.compile("", options), required: { architecture: "compute_90" } },
      "Cuda.createHostPool": { call: (options) => cuda.createHostPool(options) },
      "Cuda.createManagedPool": { call: (options) => cuda.createManagedPool(options) },
      "Cuda.getDefaultPool": { call: (options) => cuda.getDefaultPool("host", options) },
      "Cuda.getCurrentPool": { call: (options) => cuda.getCurrentPool("host", options) },
      "Cuda.allocateHost": { call: (options) => cuda.allocateHost(1, options) },
      "Cuda.registerHost": { call: (options) => cuda.registerHost(new ArrayBuffer(4096), options) },
      "Cuda.reserveAddresses": { call: (options) => cuda.reserveAddresses(1, options) },
      "CudaDevice.allocate": { call: (options) => gpu.allocate(1, options) },
      "CudaDevice.createArray": { call: (options) => gpu.createArray("u8", [4, 4], options) },
      "CudaDevice.createMipmappedArray": { call: (options) => gpu.createMipmappedArray("u8", [4, 4], options) },
      "CudaDevice.createTexture": { call: (options) => gpu.createTexture(image, options) },
      "CudaDevice.createTensorMap": {
        call: (options) => gpu.createTensorMap(matrix, options),
        required: { box: [4, 4], shape: [16, 16], dtype: "float32" },
      },
      "CudaArray.copyFrom": { call: (options) => image.copyFrom(new Uint8Array(16), options) },
      "CudaArray.copyTo": { call: (options) => image.copyTo(image, options) },
      "CudaArray.read": { call: (options) => image.read(Uint8Array, options) },
      "CudaDevice.createMemory": { call: (options) => gpu.createMemory(1, options) },
      "AddressRange.map": { call: (options) => range.map(memory, options) },
      "AddressRange.buffer": { call: (options) => range.buffer(options) },
      "AddressRange.setAccess": { call: (options) => range.setAccess(gpu, "read", options) },
      "CudaDevice.compile": { call: (options) => gpu.compile("", options) },
      "CudaDevice.createStream": { call: (options) => gpu.createStream(options) },
      "CudaDevice.createEvent": { call: (options) => gpu.createEvent(options) },
      "CudaDevice.createPool": { call: (options) => gpu.createPool(options) },
      "CudaDevice.wrap": { call: (options) => gpu.wrap(array.address, 16, options) },
      "CudaDevice.finished": { call: (options) => gpu.finished(options) },
      "CudaStream.finished": { call: (options) => stream.finished(options) },
      "CudaStream.benchmark": { call: (options) => stream.benchmark(() => {}, options) },
      "CudaStream.record": { call: (options) => stream.record(event, options) },
      "CudaStream.wait": { call: (options) => stream.wait(event, options) },
      "CudaStream.capture": { call: (options) => stream.capture(() => {}, options) },
      "CudaStream.beginCapture": { call: (options) => stream.beginCapture(options) },
      "GraphCapture.dependencies": { call: (options) => capture.dependencies(options) },
      "GraphCapture.add": {
        call: (options) => capture.add((graph, dependencies) => graph.addEmpty({ dependencies }), options),
      },
      "CudaGraph.addKernel": {
        call: (options) => byHand.addKernel(kernel, options, 0, 0, 0n, 0n),
        required: { grid: 1, block: 1 },
      },
      "CudaGraph.addCopy": { call: (options) => byHand.addCopy(other, array, options) },
      "CudaGraph.addFill": { call: (options) => byHand.addFill(other, 1, options) },
      "CudaGraph.addRecord": { call: (options) => byHand.addRecord(event, options) },
      "CudaGraph.addWait": { call: (options) => byHand.addWait(event, options) },
      "CudaGraph.addGraph": { call: (options) => byHand.addGraph(child, options) },
      "CudaGraph.addEmpty": { call: (options) => byHand.addEmpty(options) },
      "CudaGraph.addAllocation": { call: (options) => byHand.addAllocation(gpu.defaultPool, 4, options) },
      "CudaGraph.addFree": {
        call: (options) => byHand.addFree(byHand.addAllocation(gpu.defaultPool, 4).buffer, options),
      },
      "CudaGraph.createCondition": { call: (options) => byHand.createCondition(options) },
      "CudaGraph.addConditional": {
        call: (options) => byHand.addConditional(byHand.createCondition(), options),
        required: { type: "if" },
      },
      "CudaGraph.instantiate": { call: (options) => graph.instantiate(options) },
      "CudaGraph.toDot": { call: (options) => graph.toDot(options) },
      "CudaGraphExec.launch": { call: (options) => exec.launch(options) },
      "CudaGraphExec.upload": { call: (options) => exec.upload(options) },
      "CudaEvent.finished": { call: (options) => event.finished(options) },
      "CudaDevice.loadModule": { call: (options) => gpu.loadModule(ptx, options) },
      "CudaDevice.link": { call: (options) => gpu.link([ptx], options) },
      "CudaModule.kernel": { call: (options) => module.kernel("saxpy", options) },
      "CudaKernel.launch": {
        call: (options) => kernel.launch(options, 0, 0, 0n, 0n),
        required: { grid: 1, block: 1 },
      },
      "CudaKernel.maxPotentialBlockSize": { call: (options) => kernel.maxPotentialBlockSize(options) },
      "CudaKernel.maxActiveClusters": {
        call: (options) => kernel.maxActiveClusters(options),
        required: { block: 32, cluster: 1 },
      },
      "MemoryPool.allocateAsync": { call: (options) => pool.allocateAsync(16, options) },
      "MemoryPool.createCachingAllocator": { call: (options) => pool.createCachingAllocator(options) },
      "CachingAllocator.allocateAsync": { call: (options) => allocator.allocateAsync(16, options) },
      "MemoryPool.allocateArray": {
        // A number is a length.
        call: (options) => pool.allocateArray(Uint16Array, typeof options === "number" ? [options] : options),
        required: { shape: [4] },
      },
      "CachingAllocator.allocateArray": {
        call: (options) => allocator.allocateArray(Uint16Array, typeof options === "number" ? [options] : options),
        required: { shape: [4] },
      },
      "MemoryPool.allocate": { call: (options) => pool.allocate(16, options) },
      "CachingAllocator.allocate": { call: (options) => allocator.allocate(16, options) },
      "DeviceBuffer.prefetch": { call: (options) => managed.prefetch("host", options) },
      "DeviceBuffer.discard": { call: (options) => managed.discard(options) },
      "DeviceBuffer.free": { call: (options) => other.free(options) },
      "ReceivedSlot.release": { call: (options) => received.release(options) },
      "DeviceBuffer.as": { call: (options) => other.as(Uint8Array, options) },
      "DeviceBuffer.copyFrom": { call: (options) => other.copyFrom(new Uint8Array(4), options) },
      "DeviceBuffer.copyTo": { call: (options) => other.copyTo(array, options) },
      "DeviceBuffer.fill": { call: (options) => other.fill(1, options) },
      "DeviceBuffer.read": { call: (options) => other.read(Uint8Array, options) },
      "DeviceBuffer.readSync": { call: (options) => other.readSync(Uint8Array, options) },
      "CudaStream.copyBatch": { call: (options) => stream.copyBatch([], options) },
      "DeviceBuffer.pitched": { call: (options) => other.pitched(Uint8Array, [4], options) },
      "HostBuffer.pitched": { call: (options) => host.pitched(Uint8Array, [4], options) },
      "MemoryPool.allocatePitched": { call: (options) => pool.allocatePitched(Uint8Array, [4], options) },
      "PitchedArray.copyFrom": { call: (options) => rows.copyFrom(new Uint8Array(4), options) },
      "PitchedArray.copyTo": { call: (options) => rows.copyTo(other.pitched(Uint8Array, [4]), options) },
      "PitchedArray.fill": { call: (options) => rows.fill(1, options) },
      "PitchedArray.read": { call: (options) => rows.read(options) },
      "PitchedArray.readSync": { call: (options) => rows.readSync(options) },
      "DeviceArray.copyFrom": { call: (options) => array.copyFrom(new Uint8Array(4).buffer, options) },
      "DeviceArray.copyTo": { call: (options) => array.copyTo(other, options) },
      "DeviceArray.fill": { call: (options) => array.fill(1, options) },
      "DeviceArray.read": { call: (options) => array.read(Uint8Array, options) },
      "DeviceArray.readSync": { call: (options) => array.readSync(Uint8Array, options) },
      "DeviceArray.toTypedArray": { call: (options) => array.toTypedArray(options) },
      "UnixListener.listen": { call: (options) => UnixListener.listen(path, options) },
      "UnixListener.accept": { call: (options) => listener.accept(options) },
      "UnixSocket.connect": { call: (options) => UnixSocket.connect(`${folder}/socket`, options) },
      "UnixSocket.send": { call: (options) => socket.send(new Uint8Array(1), options) },
      "UnixSocket.receive": { call: (options) => socket.receive(1, options) },
      "Exporter.listen": { call: (options) => Exporter.listen(path, options) },
      "Exporter.offer": { call: (options) => exporter.offer("more", other, options) },
      "Exporter.createChannel": {
        call: (options) => exporter.createChannel("more frames", options),
        required: { pool, slots: 2, slotByteLength: 64 },
      },
      "Offer.released": { call: (options) => offer.released(options) },
      "Offer.ended": { call: (options) => offer.ended(options) },
      "Lease.recall": { call: (options) => lease.recall(options) },
      "Operator.connect": { call: (options) => Operator.connect(exporter.path, options) },
      "Operator.status": { call: (options) => operator.status(options) },
      "MemoryStore.listen": { call: (options) => MemoryStore.listen(cuda, path, options) },
      "StoreClient.connect": { call: (options) => StoreClient.connect(cuda, store.path, options) },
      "StoreClient.create": { call: (options) => client.create("weights", 1, options) },
      "StoreClient.entries": { call: (options) => client.entries(options) },
      "StoreClient.map": { call: (options) => client.map("weights", options) },
      "StoreClient.mapEntry": { call: (options) => client.mapEntry("weights", options) },
      "StoreClient.offload": { call: (options) => client.offload("published", options) },
      "MappedEntry.wake": { call: (options) => entry.wake(options) },
      "StoredMemory.publish": { call: (options) => stored.publish(options) },
      "Importer.connect": { call: (options) => Importer.connect(cuda, exporter.path, options) },
      "Importer.offers": { call: (options) => importer.offers(options).next() },
      "Importer.offer": { call: (options) => importer.offer("weights", options) },
      "Importer.channel": { call: (options) => importer.channel("frames", options) },
      "RemoteOffer.map": { call: (options) => remote.map(options) },
      "RemoteOffer.mapArray": { call: (options) => remote.mapArray(Float32Array, options) },
      "ChannelProducer.reserve": { call: (options) => channel.reserve(options) },
      "ChannelProducer.send": { call: (options) => channel.send(slot, options) },
      "Communicator.create": {
        call: (options) => Communicator.create(gpu, options),
        required: { id, rank: 0, size: 1 },
      },
      "Communicator.split": { call: (options) => communicator.split(0, 0, options) },
      "Communicator.shrink": { call: (options) => communicator.shrink([], options) },
      "Communicator.allReduce": { call: (options) => communicator.allReduce(array, array, "sum", options) },
      "Communicator.reduce": { call: (options) => communicator.reduce(array, array, 0, "sum", options) },
      "Communicator.broadcast": { call: (options) => communicator.broadcast(array, 0, options) },
      "Communicator.allGather": { call: (options) => communicator.allGather(array, array, options) },
      "Communicator.reduceScatter": { call: (options) => communicator.reduceScatter(array, array, "sum", options) },
      "Communicator.allToAll": { call: (options) => communicator.allToAll(array, other, options) },
      "Communicator.send": { call: (options) => communicator.send(array, 0, options) },
      "Communicator.receive": { call: (options) => communicator.receive(array, 0, options) },
      "ChannelConsumer.next": { call: (options) => consumer.next(options) },
    });
  });
}

/** The error that a call throws or rejects with. It must be a TypeError. */
async function refusalOf(name: string, call: Call, options: unknown): Promise<string> {
  let result: unknown;
  let timer: ReturnType<typeof setTimeout> | undefined;
  // Without a check, many of them would wait for ever.
  const waiting = new Promise((resolve) => timer = setTimeout(resolve, 2000, "a promise that waits"));
  try {
    result = await Promise.race([call(options), waiting]);
  } catch (error) {
    assertInstanceOf(error, TypeError, `${name}: ${error}`);
    return (error as Error).message;
  } finally {
    clearTimeout(timer);
  }
  throw new Error(`${name} accepted ${String(Object.entries(options ?? {}))} and returned ${String(result)}`);
}

/** The names of the options that a function has, from its message about one that it does not have. */
async function optionNames(name: string, { call, required }: Taker): Promise<string[]> {
  const message = await refusalOf(name, call, { ...required, qqqqqqq: undefined });
  assertStringIncludes(message, 'with the option "qqqqqqq": there is no such option; the ', name);
  const names = /the options? (?:are|is) (.*)$|the only option is (.*)$/.exec(message)!.slice(1).join("");
  // A long list says how many more there are.
  return names.replace(/ and \d+ more$/, "").split(", ");
}

test("options that do not exist are refused everywhere, with the nearest name", { skip }, async () => {
  await withTakers(async (takers) => {
    for (const [name, taker] of Object.entries(takers)) {
      const options = await optionNames(name, taker);
      for (const option of options) {
        // A mistyped name of two letters is like no other.
        if (option.length < 3) continue;
        // Two letters exchanged, another case, a letter too few.
        const [first, second, ...rest] = option;
        for (const typo of [[second, first, ...rest].join(""), option.toUpperCase(), option.slice(0, -1)]) {
          // One option may be the singular of another.
          if (options.includes(typo)) continue;
          const message = await refusalOf(name, taker.call, { ...taker.required, [typo]: undefined });
          assertStringIncludes(message, `with the option "${typo}": there is no such option; did you mean "${option}"`);
        }
      }
    }
  });
});

test("options of a wrong kind are refused everywhere, by their names", { skip }, async () => {
  await withTakers(async (takers) => {
    const letters = (text: string) => text.toLowerCase().replaceAll(/[^a-z]/g, "");
    for (const [name, taker] of Object.entries(takers)) {
      for (const option of await optionNames(name, taker)) {
        for (const value of wrongValuesFor(option)) {
          const message = await refusalOf(name, taker.call, { ...taker.required, [option]: value });
          assertStringIncludes(letters(message), letters(option), `${name}: ${message}`);
        }
      }
    }
  });
});

test("values that are not options are refused everywhere", { skip }, async () => {
  const values = [null, 5, "cuda", true, Symbol(), () => {}, [], ["grid"], new Map(), new Date(), new Uint8Array(4)];
  await withTakers(async (takers) => {
    for (const [name, { call }] of Object.entries(takers)) {
      for (const value of [...values, new AbortController().signal]) await refusalOf(name, call, value);
    }
  });
});

test("objects of any class, without a prototype, or with symbols can be options", () => {
  using cuda = open({ driver: "software" });
  const gpu = cuda.device(0);
  class StreamSettings {
    readonly nonBlocking = true;
    describe(): string {
      return "nonblocking";
    }
  }
  const accepted = [
    {},
    { nonBlocking: undefined },
    { [Symbol("note")]: 1 },
    new StreamSettings(),
    Object.create({ nonBlocking: true }),
    Object.assign(Object.create(null), { nonBlocking: true }),
    Object.freeze({ nonBlocking: true }),
    Object.defineProperty({}, "note", { value: 1, enumerable: false }),
  ];
  for (const options of accepted) gpu.createStream(options)[Symbol.dispose]();
  const mistyped = [Object.create({ nonblocking: true }), Object.assign(new StreamSettings(), { prioriti: 1 })];
  for (const options of mistyped) assert(threw(() => gpu.createStream(options)) instanceof TypeError);
  // Another library may have extended Object.prototype.
  Object.defineProperty(Object.prototype, "extension", { value: 1, enumerable: true, configurable: true });
  try {
    gpu.createStream({ nonBlocking: true })[Symbol.dispose]();
  } finally {
    delete (Object.prototype as { extension?: number }).extension;
  }
});

test("an AbortController can be passed where its signal is the option", async () => {
  using cuda = open({ driver: "software" });
  await cuda.device(0).finished(new AbortController());
});

test("every function and method of the public classes that takes options is tested here", { skip }, async () => {
  await withTakers((takers) => {
    assertEquals(Object.keys(takers).sort(), publicTakers().sort());
    return Promise.resolve();
  });
});

/** The functions and methods with a parameter `options` in the files that mod.ts exports from, by their names. */
function publicTakers(): string[] {
  const files = [...read("../mod.ts").matchAll(/^(?:export|\}).* from "(\.\/src\/[^"]+)";$/gm)].map(([, path]) =>
    path!
  );
  const names = files.flatMap((file) => {
    const source = read(`.${file}`);
    const exported = Object.keys(poolpass);
    return exported.flatMap((name) => {
      if (new RegExp(`^export function ${name}\\(options\\b`, "m").test(source)) return [name];
      const [, body] = new RegExp(`^export class ${name}\\b[^]*?\\{\\n([^]*?)^\\}`, "m").exec(source) ?? [];
      return methodsWithOptions(body ?? "").map((method) => `${name}.${method}`);
    });
  });
  return [...new Set(names)].filter((name) => !name.endsWith(".constructor"));
}

/** The public methods of a class's body with a parameter of a type `...Options`, or called `options`. */
function methodsWithOptions(body: string): string[] {
  const heads = body.matchAll(/^ {2}(?:static )?(?:override )?(?:async )?\*?(\w+)(?:<[^(]*>)?\(([^]*?)\)[^)]*\{$/gm);
  return [...heads].filter(([, , parameters]) => /\boptions\b|Options\b/.test(parameters!)).map(([, name]) => name!);
}

function threw(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  return undefined;
}

function read(path: string): string {
  return readFileSync(new URL(path, import.meta.url), "utf8");
}
