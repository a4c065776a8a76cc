/**
 * Makes calls behind a collective that cannot complete, on the same device. Arguments: the driver's name, the collective's timeout in
 * milliseconds, and the names of the calls. Prints the name of each call when it begins, and "done", "done late" if that
 * took more than the timeout, or its error.
 *
 * @module
 */
import process from "node:process";
import { Communicator, type CudaDevice, type CudaStream, type DeviceArray, open, SharingError } from "../../../mod.ts";

/** The fixture of the calls. */
interface Parts {
  readonly cuda: ReturnType<typeof open>;
  readonly gpu: CudaDevice;
  readonly peer: CudaDevice;
  /** The stream with the collective, and another one. */
  readonly stream: CudaStream;
  readonly other: CudaStream;
  readonly rank: Communicator;
  readonly array: DeviceArray<Float32Array>;
  /** Another buffer, on the other stream. */
  readonly apart: DeviceArray<Float32Array>;
  readonly another: ReturnType<typeof open>;
}

/** Prepares a call before the collective is enqueued. Returns the call. */
type Preparation = (parts: Parts) => () => unknown;

const ptx = `.version 7.0
.target sm_60
.address_size 64
.visible .global .u32 number;
.visible .entry nothing() { ret; }`;
const geometry = { grid: 1, block: 32 };
/** More calls than CUDA's launch queues take. */
const many = 1500;

function times(count: number, call: () => void): () => void {
  return () => {
    for (let index = 0; index < count; index++) call();
  };
}

function loaded(gpu: CudaDevice) {
  const kernel = gpu.loadModule(ptx).kernel("nothing");
  kernel.launch(geometry);
  gpu.defaultStream.synchronize();
  return kernel;
}

const calls: Readonly<Record<string, Preparation>> = {
  "many launches": ({ gpu, stream }) => {
    const kernel = loaded(gpu);
    return times(many, () => kernel.launch({ ...geometry, stream }));
  },
  "many launches behind another stream": ({ gpu, stream, other }) => {
    const kernel = loaded(gpu), event = gpu.createEvent();
    return () => {
      stream.record(event);
      other.wait(event);
      times(many, () => kernel.launch({ ...geometry, stream: other }))();
    };
  },
  "many launches on two streams in turns": ({ gpu, stream, other }) => {
    const kernel = loaded(gpu);
    return times(many, () => {
      kernel.launch({ ...geometry, stream });
      kernel.launch({ ...geometry, stream: other });
    });
  },
  "many launches between calls on other streams": ({ gpu, stream, other }) => {
    const kernel = loaded(gpu);
    const third = gpu.createStream({ nonBlocking: true });
    let random = 1;
    return times(4 * many, () => {
      random = (random * 1103515245 + 12345) % 2 ** 31;
      kernel.launch({ ...geometry, stream: [stream, other, third][Math.floor(random / 1000) % 3]! });
    });
  },
  "a few launches between many on another stream": ({ gpu, stream, other }) => {
    const kernel = loaded(gpu);
    return times(8, () => {
      kernel.launch({ ...geometry, stream });
      times(250, () => kernel.launch({ ...geometry, stream: other }))();
    });
  },
  "many launches on another stream": ({ gpu, other }) => {
    const kernel = loaded(gpu);
    return times(many, () => kernel.launch({ ...geometry, stream: other }));
  },
  "many collectives": ({ rank, array }) => times(many, () => rank.allReduce(array, array)),
  "many fills": ({ array }) => times(many, () => array.fill(1)),
  "many fills of words": ({ array }) => times(many, () => array.fill(1.5)),
  "many fills of double words": ({ array }) => {
    const numbers = array.as(Float64Array);
    return times(many, () => numbers.fill(1.1));
  },
  "many copies": ({ array }) => {
    const source = new Float32Array(4);
    return times(many, () => array.copyFrom(source));
  },
  "many copies of page-locked memory": ({ cuda, array }) => {
    const source = cuda.allocateHost(array.byteLength);
    return times(many, () => array.copyFrom(source));
  },
  "many copies to page-locked memory": ({ cuda, array }) => {
    const target = cuda.allocateHost(array.byteLength);
    return times(many, () => array.copyTo(target));
  },
  "many copies on the device": ({ gpu, array, stream }) => {
    const target = gpu.allocate(array.byteLength);
    return times(many, () => array.copyTo(target, stream));
  },
  "many records": ({ gpu, stream }) => {
    const event = gpu.createEvent();
    return times(many, () => stream.record(event));
  },
  "many waits": ({ gpu, stream, other }) => {
    const event = gpu.createEvent();
    return times(many, () => {
      other.record(event);
      stream.wait(event);
    });
  },
  "many allocations": ({ gpu, stream }) => {
    const pool = gpu.createPool();
    return times(many, () => pool.allocate(256, stream).free());
  },
  "many new pools": ({ gpu, stream }) => times(8, () => void gpu.createPool().allocate(2 ** 20, stream)),
  "large copy": ({ gpu, other }) => {
    const array = gpu.createPool().allocateArray(Uint8Array, 2 ** 24, other);
    const source = new Uint8Array(2 ** 24);
    return () => array.copyFrom(source);
  },
  "large read": ({ gpu, other }) => {
    const array = gpu.createPool().allocateArray(Uint8Array, 2 ** 24, other);
    return () => array.toTypedArray();
  },
  "readSync": ({ apart }) => () => apart.readSync(Float32Array),
  "loadModule": ({ gpu }) => () => gpu.loadModule(ptx),
  "link": ({ gpu }) => () => gpu.link([ptx]),
  "kernel": ({ gpu }) => {
    const module = gpu.loadModule(ptx);
    return () => module.kernel("nothing");
  },
  "first launch": ({ gpu, other }) => {
    const kernel = gpu.loadModule(ptx).kernel("nothing");
    return () => kernel.launch({ ...geometry, stream: other });
  },
  "attributes": ({ gpu }) => {
    const kernel = gpu.loadModule(ptx).kernel("nothing");
    return () => kernel.attributes.registers;
  },
  "occupancy": ({ gpu }) => {
    const kernel = gpu.loadModule(ptx).kernel("nothing");
    return () => kernel.maxActiveBlocksPerMultiprocessor(32);
  },
  "getGlobal": ({ gpu }) => {
    const module = gpu.loadModule(ptx);
    return () => module.getGlobal("number");
  },
  "module's end": ({ gpu }) => {
    const module = gpu.loadModule(ptx);
    return () => module[Symbol.dispose]();
  },
  "used module's end": ({ gpu }) => {
    const module = gpu.loadModule(ptx);
    module.kernel("nothing").launch(geometry);
    gpu.defaultStream.synchronize();
    return () => module[Symbol.dispose]();
  },
  "createStream": ({ gpu }) => () => gpu.createStream(),
  "stream's end": ({ gpu }) => {
    const stream = gpu.createStream();
    return () => stream[Symbol.dispose]();
  },
  "createEvent": ({ gpu }) => () => gpu.createEvent(),
  "interprocess event": ({ gpu }) => () => gpu.createEvent({ interprocess: true }).exportHandle(),
  "event's end": ({ gpu }) => {
    const event = gpu.createEvent();
    return () => event[Symbol.dispose]();
  },
  "allocate": ({ gpu }) => () => gpu.allocate(2 ** 22),
  "free": ({ gpu }) => {
    const buffer = gpu.allocate(64);
    return () => buffer.free();
  },
  "allocateHost": ({ cuda }) => () => cuda.allocateHost(2 ** 22),
  "page-locked memory's end": ({ cuda }) => {
    const buffer = cuda.allocateHost(64);
    return () => buffer[Symbol.dispose]();
  },
  "createPool": ({ gpu }) => () => gpu.createPool({ handleType: "posix-fd" }),
  "createHostPool": ({ cuda }) => () => cuda.createHostPool(),
  "pool's end": ({ gpu }) => {
    const pool = gpu.createPool();
    pool.allocate(64).free();
    gpu.defaultStream.synchronize();
    return () => pool[Symbol.dispose]();
  },
  "trimTo": ({ gpu }) => {
    const pool = gpu.createPool({ releaseThreshold: 2 ** 30 });
    pool.allocate(2 ** 25).free();
    gpu.defaultStream.synchronize();
    return () => pool.trimTo(0);
  },
  "usage": ({ gpu }) => {
    const pool = gpu.createPool();
    return () => pool.usage();
  },
  "setAccess": ({ gpu, peer }) => {
    const pool = gpu.createPool();
    pool.allocate(64);
    return () => pool.setAccess(peer, "read-write");
  },
  "exportHandle": ({ gpu }) => {
    const pool = gpu.createPool({ handleType: "posix-fd" });
    return () => pool.exportHandle();
  },
  "importPool": ({ gpu }) => {
    const handle = gpu.createPool({ handleType: "posix-fd" }).exportHandle();
    return () => gpu.importPool(handle);
  },
  "export of memory": ({ gpu }) => {
    const buffer = gpu.allocate(64);
    return () => buffer.exportHandle();
  },
  "enablePeerAccess": ({ cuda, gpu, peer }) => () => {
    // On GPUs, NCCL has enabled peer access already.
    if (cuda.driver === "software") gpu.enablePeerAccess(peer);
  },
  "disablePeerAccess": ({ cuda, gpu, peer }) => {
    if (cuda.driver === "software") gpu.enablePeerAccess(peer);
    return () => {
      if (cuda.driver === "software") gpu.disablePeerAccess(peer);
    };
  },
  "createMemory": ({ gpu }) => () => gpu.createMemory(2 ** 21),
  "map": ({ cuda, gpu }) => {
    const range = cuda.reserveAddresses(2 ** 22), memory = gpu.createMemory(2 ** 21);
    return () => range.map(memory);
  },
  "unmap": ({ cuda, gpu }) => {
    const range = cuda.reserveAddresses(2 ** 22), memory = gpu.createMemory(2 ** 21);
    const buffer = range.map(memory);
    return () => buffer.free();
  },
  "memoryInfo": ({ gpu }) => () => gpu.memoryInfo(),
  "profiler": ({ cuda }) => () => {
    cuda.startProfiler();
    cuda.stopProfiler();
  },
  "query": ({ stream }) => () => stream.query(),
  "another object": () => () => open({ driver }).device(0).createStream(),
  "another object's synchronize": ({ another }) => () => another.device(0).synchronize(),
  "another object's finished": ({ another }) => () => another.device(0).finished(),
  "another object's free": ({ another }) => {
    const buffer = another.device(0).allocate(64);
    return () => buffer.free();
  },
  "another object's stream": ({ another }) => {
    const array = another.device(0).createPool().allocateArray(Float32Array, 4);
    return () => {
      array.fill(1);
      array.stream.synchronize();
    };
  },
  "another object's module": ({ another }) => () => another.device(0).loadModule(ptx),
  "another object's end": ({ another }) => () => another[Symbol.dispose](),
};

const [driver, timeoutText, ...names] = process.argv.slice(2) as ["software" | "cuda", string, ...string[]];
const timeout = Number(timeoutText);
if (names.length === 0) console.log(Object.keys(calls).join("\n"));
for (const name of names) {
  const cuda = open({ driver, softwareDevices: 2 }), another = open({ driver });
  const gpu = cuda.device(0), peer = cuda.device(cuda.devices.length - 1);
  const id = Communicator.createId(cuda);
  // Creating a communicator takes a second on GPUs, more than the collective's timeout.
  const ranks = await Promise.all([gpu, peer].map((device, rank) => {
    return Communicator.create(device, { id, rank, size: 2, timeout });
  }));
  const [stream, other] = [0, 1].map(() => gpu.createStream({ nonBlocking: true })) as [CudaStream, CudaStream];
  const pool = gpu.createPool();
  const [array, apart] = [stream, other].map((stream) => pool.allocateArray(Float32Array, 4, stream)) as [
    DeviceArray<Float32Array>,
    DeviceArray<Float32Array>,
  ];
  array.fill(1);
  apart.fill(1);
  const rank = ranks[0]!;
  const call = calls[name]!({ cuda, gpu, peer, stream, other, rank, array, apart, another });
  for (const device of cuda.devices) device.synchronize();
  rank.allReduce(array, array);
  console.log(name);
  const begin = performance.now();
  try {
    await call();
    console.log(performance.now() - begin < timeout ? "done" : "done late");
  } catch (error) {
    const late = performance.now() - begin < timeout ? "" : " late";
    console.log(error instanceof SharingError ? `${error.code}${late}` : `${error}${late}`);
  }
  for (const rank of ranks) await rank.abort();
  cuda[Symbol.dispose]();
  another[Symbol.dispose]();
}
process.exit();
