/**
 * Rows about the public objects for calls that crash the driver or that CUDA leaves undefined.
 *
 * @module
 */
import { ptx } from "../../../kernels/fill.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import type { CudaDevice } from "../../../src/objects/cuda_device.ts";
import type { CudaModule } from "../../../src/objects/modules/cuda_module.ts";
import type { CudaKernel } from "../../../src/objects/kernels/cuda_kernel.ts";
import type { LaunchOptions } from "../../../src/objects/kernels/launch_options.ts";
import type { KernelArgument } from "../../../src/objects/kernels/kernel_arguments.ts";
import { Session } from "../../../src/session.ts";
import { deviceAttributes } from "../../../src/support/device_attributes.ts";
import { attemptEach, attemptEachAsync, type Attempts } from "../attempts.ts";
import type { Fixture, Situation } from "../situation.ts";

const byteLength = 1024;
const oneWarp = { grid: 1, block: 32 } as const;

function openCuda({ driver }: Fixture): Cuda {
  return new Cuda(new Session(driver));
}

function firstDevice(fixture: Fixture): CudaDevice {
  return openCuda(fixture).device(0);
}

/** Loads `fill` on device 0 and allocates memory to fill. */
function prepareFill(fixture: Fixture) {
  const gpu = firstDevice(fixture);
  const module: CudaModule = gpu.loadModule(ptx);
  return { gpu, module, fill: module.kernel("fill"), buffer: gpu.createPool().allocate(byteLength) };
}

/** Launches `fill` with each list of arguments, waits for each launch, and returns the results. */
function launchFill(fixture: Fixture, lists: Readonly<Record<string, readonly KernelArgument[]>>): Attempts {
  const { gpu, fill } = prepareFill(fixture);
  return launchEach(gpu, fill, lists);
}

function launchEach(
  gpu: CudaDevice,
  fill: CudaKernel,
  lists: Readonly<Record<string, readonly KernelArgument[]>>,
): Attempts {
  return attemptEach(
    Object.fromEntries(
      Object.entries(lists).map(([name, values]) => [name, () => {
        fill.launch(oneWarp, ...values);
        gpu.synchronize();
      }]),
    ),
  );
}

/** Launches `fill` in each shape, waits for each launch, and returns the results. */
function launchInShapes(fixture: Fixture, shapes: Readonly<Record<string, LaunchOptions>>): Attempts {
  const { gpu, fill, buffer } = prepareFill(fixture);
  return attemptEach(
    Object.fromEntries(
      Object.entries(shapes).map(([name, shape]) => [name, () => {
        fill.launch(shape, buffer, byteLength, 0);
        gpu.synchronize();
      }]),
    ),
  );
}

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "a disposed stream used, and disposed again",
    run(fixture) {
      const { gpu, fill, buffer } = prepareFill(fixture);
      const [stream, event] = [gpu.createStream(), gpu.createEvent()];
      const pool = gpu.createPool();
      stream[Symbol.dispose]();
      return attemptEachAsync({
        unsafeHandle: () => stream.unsafeHandle,
        query: () => stream.query(),
        synchronize: () => stream.synchronize(),
        finished: () => stream.finished(),
        record: () => stream.record(event),
        wait: () => stream.wait(event),
        launch: () => fill.launch({ ...oneWarp, stream }, buffer, byteLength, 0),
        allocate: () => pool.allocate(byteLength, stream),
        copyFrom: () => buffer.copyFrom(new Uint8Array(4), stream),
        fill: () => buffer.fill(0, stream),
        read: () => buffer.read(Uint8Array, { stream }),
        readSync: () => buffer.readSync(Uint8Array, { stream }),
        free: () => buffer.free(stream),
        "free on another after that": () => buffer.free(),
        "dispose again": () => stream[Symbol.dispose](),
      });
    },
  },
  {
    name: "the default stream disposed, and used afterwards",
    run(fixture) {
      const { defaultStream } = firstDevice(fixture);
      defaultStream[Symbol.dispose]();
      return attemptEach({
        query: () => defaultStream.query(),
        synchronize: () => defaultStream.synchronize(),
        "dispose again": () => defaultStream[Symbol.dispose](),
      });
    },
  },
  {
    name: "a disposed event used, and disposed again",
    run(fixture) {
      const gpu = firstDevice(fixture);
      const [event, other] = [gpu.createEvent({ interprocess: true }), gpu.createEvent({ timing: true })];
      event[Symbol.dispose]();
      return attemptEachAsync({
        unsafeHandle: () => event.unsafeHandle,
        query: () => event.query(),
        synchronize: () => event.synchronize(),
        finished: () => event.finished(),
        "elapsedTime from it": () => other.elapsedTime(event),
        "elapsedTime to it": () => event.elapsedTime(other),
        exportHandle: () => event.exportHandle(),
        record: () => gpu.defaultStream.record(event),
        wait: () => gpu.defaultStream.wait(event),
        "dispose again": () => event[Symbol.dispose](),
      });
    },
  },
  {
    name: "a disposed module used, and disposed again; its kernels, and its variables",
    run(fixture) {
      const gpu = firstDevice(fixture);
      const variable = ".visible .global .align 4 .u32 counter;\n.visible .entry";
      const module = gpu.loadModule(ptx.replace(".visible .entry", variable));
      const buffer = gpu.createPool().allocate(byteLength);
      const [fill, counter] = [module.kernel("fill"), module.getGlobal("counter")];
      module[Symbol.dispose]();
      return attemptEach({
        kernel: () => module.kernel("fill"),
        getGlobal: () => module.getGlobal("counter"),
        launch: () => fill.launch(oneWarp, buffer, byteLength, 0),
        maxActiveBlocksPerMultiprocessor: () => fill.maxActiveBlocksPerMultiprocessor(32),
        "fill of the variable": () => counter.fill(0),
        "address of the variable": () => counter.address,
        "dispose again": () => module[Symbol.dispose](),
      });
    },
  },
  {
    name: "a module's variable freed and disposed, and used afterwards",
    run(fixture) {
      const variable = ".visible .global .align 4 .u32 counter = 9;\n.visible .entry";
      const counter = firstDevice(fixture).loadModule(ptx.replace(".visible .entry", variable)).getGlobal("counter");
      return attemptEach({
        free: () => counter.free(),
        dispose: () => counter[Symbol.dispose](),
        read: () => counter.readSync(Uint32Array)[0],
      });
    },
  },
  {
    name: "kernels and variables that a module does not have, through the objects",
    run(fixture) {
      const { module } = prepareFill(fixture);
      return attemptEach({
        "another kernel": () => module.kernel("other"),
        "a kernel without a name": () => module.kernel(""),
        "another kernel, with its parameters": () => module.kernel("other", { parameters: ["u32"] }),
        "a variable": () => module.getGlobal("other"),
      });
    },
  },
  {
    name: "launches with missing and surplus arguments",
    run(fixture) {
      const { gpu, fill, buffer } = prepareFill(fixture);
      return launchEach(gpu, fill, {
        none: [],
        "one missing": [buffer, byteLength],
        all: [buffer, byteLength, 0],
        "one too many": [buffer, byteLength, 0, 0],
      });
    },
  },
  {
    name: "launches with arguments of the wrong kind",
    run(fixture) {
      const { gpu, fill, buffer } = prepareFill(fixture);
      return launchEach(gpu, fill, {
        "text for a pointer": ["0" as unknown as number, byteLength, 0],
        "nothing for a pointer": [undefined as unknown as number, byteLength, 0],
        "null for a pointer": [null as unknown as number, byteLength, 0],
        "a buffer for 32 bits": [buffer, byteLength, buffer],
        "a typed array for a pointer": [new Uint8Array(8), byteLength, 0],
        "text for a number": [buffer, "1024" as unknown as number, 0],
      });
    },
  },
  {
    name: "launches with numbers that do not fit their parameters",
    run: (fixture) =>
      launchFill(fixture, {
        "a fraction of 32 bits": [0n, 0, 0.5],
        "more than 32 bits": [0n, 0, 2 ** 32],
        "less than 32 bits": [0n, 0, -(2 ** 31) - 1],
        "no number": [0n, 0, NaN],
        "more than 64 bits": [0n, 2n ** 64n, 0],
        "a number past 2 ** 53": [0n, 2 ** 53, 0],
        "the most": [0n, 0, 2 ** 32 - 1],
        "the least": [0n, 0, -(2 ** 31)],
      }),
  },
  {
    name: "launches with extents that are no whole numbers from 1 on",
    run: (fixture) =>
      launchInShapes(fixture, {
        "no blocks": { grid: 0, block: 32 },
        "no blocks in z": { grid: [1, 1, 0], block: 32 },
        "less than none": { grid: -1, block: 32 },
        "half a block": { grid: 0.5, block: 32 },
        "no number of blocks": { grid: NaN, block: 32 },
        "2 ** 32 blocks": { grid: 2 ** 32, block: 32 },
        "no threads": { grid: 1, block: 0 },
        "half a thread": { grid: 1, block: 0.5 },
      }),
  },
  {
    name: "launches with more blocks, threads and shared memory than there can be, through the objects",
    run: (fixture) =>
      launchInShapes(fixture, {
        "65536 blocks in y": { grid: [1, 65536], block: 32 },
        "1025 threads": { grid: 1, block: 1025 },
        "33 x 32 threads": { grid: 1, block: [33, 32] },
        "65 threads in z": { grid: 1, block: [1, 1, 65] },
        "1 MiB": { ...oneWarp, sharedMemoryBytes: 2 ** 20 },
        "less than no shared memory": { ...oneWarp, sharedMemoryBytes: -1 },
        "half a byte of shared memory": { ...oneWarp, sharedMemoryBytes: 0.5 },
        "1024 threads": { grid: 1, block: 1024 },
      }),
  },
  {
    name: "launches with more than 48 KiB of shared memory, through the objects",
    run(fixture) {
      const maximum = fixture.driver.deviceGetAttribute(0, deviceAttributes.maxSharedMemoryPerBlockOptin);
      return launchInShapes(fixture, {
        "48 KiB and a byte": { ...oneWarp, sharedMemoryBytes: 48 * 2 ** 10 + 1 },
        all: { ...oneWarp, sharedMemoryBytes: maximum },
        "a byte more": { ...oneWarp, sharedMemoryBytes: maximum + 1 },
      });
    },
  },
  {
    name: "a kernel launched on a stream of another device, through the objects",
    devices: 2,
    run(fixture) {
      const cuda = openCuda(fixture);
      const [gpu, peer] = [cuda.device(0), cuda.device(1)];
      const buffer = gpu.createPool().allocate(byteLength);
      const fill = gpu.loadModule(ptx).kernel("fill");
      return attemptEach({
        "a stream": () => fill.launch({ ...oneWarp, stream: peer.createStream() }, buffer, byteLength, 0),
        "the default stream": () => fill.launch({ ...oneWarp, stream: peer.defaultStream }, buffer, byteLength, 0),
      });
    },
  },
  {
    name: "a freed buffer, and a part of one, passed to all that takes one",
    run(fixture) {
      const { gpu, fill, buffer } = prepareFill(fixture);
      const freed = gpu.createPool().allocate(byteLength);
      const part = freed.subarray(0, 512);
      freed.free();
      const uses = (name: string, gone: typeof freed) => ({
        [`${name}: launch`]: () => fill.launch(oneWarp, gone, 4, 0),
        [`${name}: copyFrom`]: () => buffer.copyFrom(gone),
        [`${name}: copyTo`]: () => buffer.subarray(0, gone.byteLength).copyTo(gone),
        [`${name}: copyFrom of nothing`]: () => gone.copyFrom(new Uint8Array(0)),
        [`${name}: fill of nothing`]: () => gone.fill(0, undefined, { byteLength: 0 }),
        [`${name}: read`]: () => gone.read(Uint8Array),
        [`${name}: readSync`]: () => gone.readSync(Uint8Array),
        [`${name}: hostView`]: () => gone.hostView(),
        [`${name}: exportHandle`]: () => gone.exportHandle(),
      });
      return attemptEachAsync({ ...uses("whole", freed), ...uses("part", part) });
    },
  },
  {
    name: "memory of CudaDevice.allocate freed twice, in part, used after it, and disposed",
    run(fixture) {
      const buffer = firstDevice(fixture).allocate(byteLength);
      const part = buffer.subarray(0, 4);
      return attemptEach({
        "free a part": () => part.free(),
        free: () => buffer.free(),
        "free again": () => buffer.free(),
        fill: () => buffer.fill(0),
        "fill the part": () => part.fill(0),
        exportHandle: () => buffer.exportHandle(),
        dispose: () => buffer[Symbol.dispose](),
      });
    },
  },
  {
    name: "exports of memory that has none of the kind",
    run(fixture) {
      const gpu = firstDevice(fixture);
      const [buffer, pooled] = [gpu.allocate(byteLength), gpu.createPool().allocate(byteLength)];
      return attemptEach({
        "the pointer of memory of no pool": () => buffer.exportPointer(),
        "the handle of pool memory": () => pooled.exportHandle(),
        "the handle of a part": () => buffer.subarray(0, 4).exportHandle(),
        "the pointer of a part": () => pooled.subarray(0, 4).exportPointer(),
      });
    },
  },
  {
    name: "copies, fills and reads that reach past a buffer's end",
    run(fixture) {
      const gpu = firstDevice(fixture);
      const [buffer, small] = [gpu.allocate(byteLength), gpu.allocate(16)];
      return attemptEach({
        "copyFrom of too much": () => buffer.copyFrom(new Uint8Array(byteLength + 1)),
        "copyFrom too far": () => buffer.copyFrom(new Uint8Array(4), undefined, { byteOffset: byteLength - 3 }),
        "copyFrom before": () => buffer.copyFrom(new Uint8Array(4), undefined, { byteOffset: -1 }),
        "copyFrom of a buffer": () => small.copyFrom(buffer),
        "copyTo a buffer": () => buffer.copyTo(small),
        "fill of too much": () => buffer.fill(0, undefined, { byteLength: byteLength + 1 }),
        "fill with 256": () => buffer.fill(256),
        "fill with -1": () => buffer.fill(-1),
        "readSync of too much": () => buffer.readSync(Uint32Array, { length: byteLength / 4 + 1 }),
        "readSync of no whole number of elements": () => buffer.readSync(Uint32Array, { byteOffset: 2 }),
        "subarray past the end": () => buffer.subarray(0, byteLength + 1),
        "subarray backwards": () => buffer.subarray(8, 4),
      });
    },
  },
  {
    name: "page-locked memory disposed twice, and used after it",
    run(fixture) {
      const cuda = openCuda(fixture);
      const buffer = cuda.device(0).allocate(byteLength);
      const host = cuda.allocateHost(byteLength);
      const view = new Uint8Array(host.buffer);
      host[Symbol.dispose]();
      return attemptEach({
        buffer: () => host.buffer,
        "elements of its view": () => view.length,
        copyFrom: () => buffer.copyFrom(host),
        copyTo: () => buffer.copyTo(host),
        "dispose again": () => host[Symbol.dispose](),
      });
    },
  },
  {
    name: "page-locked memory of sizes that there are not, through the objects",
    run(fixture) {
      const cuda = openCuda(fixture);
      return attemptEach({
        "0": () => cuda.allocateHost(0),
        "-1": () => cuda.allocateHost(-1),
        half: () => cuda.allocateHost(0.5),
        "2 ** 50": () => cuda.allocateHost(2 ** 50),
      });
    },
  },
  {
    name: "events of kinds that there are not",
    run(fixture) {
      const gpu = firstDevice(fixture);
      return attemptEach({
        "timing and interprocess": () => gpu.createEvent({ timing: true, interprocess: true }),
        "exported without interprocess": () => gpu.createEvent().exportHandle(),
        "opened by its maker": () => gpu.openEvent(gpu.createEvent({ interprocess: true }).exportHandle()),
        "opened by 63 bytes": () => gpu.openEvent(new Uint8Array(63)),
        "opened by 64 zeros": () => gpu.openEvent(new Uint8Array(64)),
        "opened by text": () => gpu.openEvent("handle" as unknown as Uint8Array),
      });
    },
  },
  {
    name: "legacy memory opened by what is none",
    run(fixture) {
      const gpu = firstDevice(fixture);
      const handle = gpu.allocate(byteLength).exportHandle();
      return attemptEach({
        "its own process": () => gpu.openMemory(handle, byteLength),
        "63 bytes": () => gpu.openMemory(handle.subarray(1), byteLength),
        "64 zeros": () => gpu.openMemory(new Uint8Array(64), byteLength),
        "no bytes long": () => gpu.openMemory(handle, 0),
      });
    },
  },
  {
    name: "events timed through the objects that cannot be",
    run(fixture) {
      const gpu = firstDevice(fixture);
      const [timed, other, untimed] = [
        gpu.createEvent({ timing: true }),
        gpu.createEvent({ timing: true }),
        gpu.createEvent(),
      ];
      gpu.defaultStream.record(timed);
      gpu.defaultStream.record(untimed);
      gpu.synchronize();
      return attemptEach({
        "never recorded": () => timed.elapsedTime(other),
        "without timing": () => timed.elapsedTime(untimed),
        itself: () => timed.elapsedTime(timed),
      });
    },
  },
  {
    name: "devices and attributes that there are not, through the objects",
    run(fixture) {
      const cuda = openCuda(fixture);
      return attemptEach({
        "device 99": () => cuda.device(99),
        "device -1": () => cuda.device(-1),
        "a UUID": () => cuda.device("GPU-00000000-0000-0000-0000-000000000000"),
        "an attribute": () => cuda.device(0).attribute("nonsense" as never),
      });
    },
  },
  {
    name: "images that are no modules, through the objects",
    run(fixture) {
      const gpu = firstDevice(fixture);
      return attemptEach({
        "text that is no PTX": () => gpu.loadModule("This is not what a kernel looks like.\n"),
        "PTX that is broken": () => gpu.loadModule(ptx.replace("ret;", "return;")),
      });
    },
  },
  {
    name: "everything used after its Cuda object was disposed",
    run(fixture) {
      const cuda = openCuda({ ...fixture, driver: fixture.openDriver() });
      const gpu = cuda.device(0);
      const [stream, event, module, pool] = [
        gpu.createStream(),
        gpu.createEvent(),
        gpu.loadModule(ptx),
        gpu.createPool(),
      ];
      const [fill, buffer, own] = [module.kernel("fill"), pool.allocate(byteLength), gpu.allocate(byteLength)];
      const host = cuda.allocateHost(byteLength);
      gpu.synchronize();
      cuda[Symbol.dispose]();
      return attemptEachAsync({
        device: () => cuda.device(0),
        allocateHost: () => cuda.allocateHost(4),
        createStream: () => gpu.createStream(),
        createPool: () => gpu.createPool(),
        loadModule: () => gpu.loadModule(ptx),
        synchronize: () => gpu.synchronize(),
        "stream query": () => stream.query(),
        "event query": () => event.query(),
        launch: () => fill.launch(oneWarp, buffer, byteLength, 0),
        "pool allocate": () => pool.allocate(byteLength),
        "buffer fill": () => buffer.fill(0),
        "memory fill": () => own.fill(0),
        "host buffer": () => host.buffer,
        "dispose again": () => cuda[Symbol.dispose](),
      });
    },
  },
  {
    name: "everything used after a kernel failed on its device, and disposed",
    run(fixture) {
      const { gpu, module, fill, buffer } = prepareFill(fixture);
      const [stream, event] = [gpu.createStream(), gpu.createEvent()];
      const own = gpu.allocate(byteLength);
      fill.launch(oneWarp, 0n, 4, 0);
      return attemptEachAsync({
        synchronize: () => gpu.synchronize(),
        finished: () => gpu.finished(),
        "stream query": () => stream.query(),
        "event query": () => event.query(),
        launch: () => fill.launch(oneWarp, buffer, byteLength, 0),
        read: () => buffer.read(Uint8Array),
        createStream: () => gpu.createStream(),
        "dispose the memory": () => own[Symbol.dispose](),
        "dispose the buffer": () => buffer[Symbol.dispose](),
        "dispose the event": () => event[Symbol.dispose](),
        "dispose the stream": () => stream[Symbol.dispose](),
        "dispose the module": () => module[Symbol.dispose](),
      });
    },
  },
];
