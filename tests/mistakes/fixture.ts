import { openSync, readFileSync, renameSync } from "node:fs";
import { createServer } from "node:net";
import process from "node:process";
import { ptx as saxpyPtx } from "../../kernels/saxpy.ts";
import {
  type ChannelConsumer,
  type ChannelProducer,
  type Cuda,
  type CudaDevice,
  type CudaEvent,
  type CudaKernel,
  type CudaModule,
  type CudaStream,
  type DeviceArray,
  type DeviceBuffer,
  Exporter,
  type HostBuffer,
  Importer,
  type Lease,
  type MemoryPool,
  type Offer,
  open,
  UnixListener,
  UnixSocket,
} from "../../mod.ts";
import { dlopen } from "../../ffi/native/host.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";

/** PTX of `kernels.cu`, `textured.cu` and `multicast.cu`, as NVIDIA's compiler wrote it. */
const userPtx = readFileSync(new URL("kernels.ptx", import.meta.url), "utf8");
const texturedPtx = readFileSync(new URL("textured.ptx", import.meta.url), "utf8");
const multicastPtx = readFileSync(new URL("multicast.ptx", import.meta.url), "utf8");

/** What poolpass reads of the environment in every case; undefined is not set. */
export const environment: Readonly<Record<string, string | undefined>> = {
  POOLPASS_DRIVER: "software",
  // A kernel that does not end is stopped soon.
  POOLPASS_SOFTWARE_STEPS: "100000",
  POOLPASS_SOFTWARE_DEVICES: undefined,
  POOLPASS_SOFTWARE_PEERS: undefined,
  POOLPASS_SOFTWARE_THREADS: undefined,
  POOLPASS_DEBUG: undefined,
  POOLPASS_NVRTC: undefined,
  POOLPASS_CACHE: undefined,
  CUDA_VISIBLE_DEVICES: undefined,
};

/** Both ends of a channel. */
interface Connected {
  readonly channel: ChannelProducer;
  readonly importer: Importer;
  readonly frames: ChannelConsumer;
}

/**
 * What the programs of users have in common, as the README and the guide have it. Each case gets its own, made when it
 * is first used.
 */
export class Fixture {
  readonly saxpyPtx: string = saxpyPtx;
  readonly userPtx: string = userPtx;
  readonly texturedPtx: string = texturedPtx;
  readonly multicastPtx: string = multicastPtx;
  /** The path of a socket, in a new folder. */
  readonly path: string;
  readonly #made = new Map<string, unknown>();

  constructor(path: string) {
    this.path = path;
  }

  /** The result of `open()`, with two devices. */
  get cuda(): Cuda {
    return this.#once("cuda", () => open());
  }
  get gpu(): CudaDevice {
    return this.cuda.device(0);
  }
  get peer(): CudaDevice {
    return this.cuda.device(1);
  }
  get stream(): CudaStream {
    return this.#once("stream", () => this.gpu.createStream());
  }
  get event(): CudaEvent {
    return this.#once("event", () => this.gpu.createEvent());
  }
  get pool(): MemoryPool {
    return this.#once("pool", () => this.gpu.createPool());
  }
  /** 4096 bytes. */
  get buffer(): DeviceBuffer {
    return this.#once("buffer", () => this.pool.allocate(4096, this.stream));
  }
  /** 1024 floats, all 1. */
  get x(): DeviceArray<Float32Array> {
    return this.#once("x", () => this.#floats());
  }
  /** Like `x`. */
  get y(): DeviceArray<Float32Array> {
    return this.#once("y", () => this.#floats());
  }
  /** 4096 bytes. */
  get host(): HostBuffer {
    return this.#once("host", () => this.cuda.allocateHost(4096));
  }
  /** The module of `kernels/saxpy.cu`. */
  get module(): CudaModule {
    return this.#once("module", () => this.gpu.loadModule(saxpyPtx));
  }
  get saxpy(): CudaKernel {
    return this.module.kernel("saxpy");
  }
  /** The module of `kernels.cu`. */
  get userModule(): CudaModule {
    return this.#once("userModule", () => this.gpu.loadModule(userPtx));
  }
  /** A pool that can be shared. */
  get shared(): MemoryPool {
    return this.#once("shared", () => this.gpu.createPool({ handleType: "posix-fd" }));
  }
  /** 4096 bytes of `shared`. */
  get weights(): DeviceBuffer {
    return this.#once("weights", () => this.shared.allocate(4096, this.stream));
  }
  /** Listens at `path`. */
  get exporter(): Exporter {
    return this.#once("exporter", () => Exporter.listen(this.path));
  }

  /** Connected to `exporter`, with a Cuda object of its own. */
  readonly connect = async (): Promise<Importer> => {
    const { path } = this.exporter;
    const importer = await Importer.connect(open(), path);
    this.#made.set("importer", importer);
    return importer;
  };

  /** A channel of two slots of 1024 bytes, with a consumer. */
  readonly openChannel = async (): Promise<Connected> => {
    const { exporter, shared, stream } = this;
    const channel = exporter.createChannel("frames", { pool: shared, slots: 2, slotByteLength: 1024, stream });
    const importer = await this.connect();
    return { channel, importer, frames: await importer.channel("frames") };
  };

  /** Waits for an offer's lease, which follows the mapping by a message. */
  readonly firstLease = async (offer: Offer): Promise<Lease> => {
    await waitUntil(() => offer.leases[0]?.state === "held");
    return offer.leases[0]!;
  };

  /** Two connected sockets. */
  readonly socketPair = async (): Promise<[UnixSocket, UnixSocket]> => {
    await using listener = UnixListener.listen(this.path);
    return await Promise.all([UnixSocket.connect(this.path), listener.accept()]);
  };

  /** Leaves what a process leaves at `path` that was killed while it listened there. */
  readonly leaveSocket = async (): Promise<void> => {
    const server = createServer();
    await new Promise<void>((listening) => server.listen(this.path, listening));
    renameSync(this.path, `${this.path}.left`);
    await new Promise((closed) => server.close(closed));
    renameSync(`${this.path}.left`, this.path);
  };

  /** Returns a descriptor of a file that is no memory. */
  readonly openFile = (): number => openSync("/dev/null", "r");

  /** Sets environment variables for `body`. */
  readonly withEnvironment = <T>(variables: Readonly<Record<string, string>>, body: () => T): T => {
    const before = Object.keys(variables).map((name) => [name, environment[name]] as const);
    for (const [name, value] of Object.entries(variables)) setVariable(name, value);
    try {
      return body();
    } finally {
      for (const [name, value] of before) setVariable(name, value);
    }
  };

  /** Disposes of what connects to other processes, and of the Cuda object with everything else. */
  async end(): Promise<void> {
    for (const name of ["importer", "exporter"]) {
      const made = this.#made.get(name) as AsyncDisposable | undefined;
      await made?.[Symbol.asyncDispose]();
    }
    (this.#made.get("cuda") as Cuda | undefined)?.[Symbol.dispose]();
  }

  #floats(): DeviceArray<Float32Array> {
    const array = this.pool.allocateArray(Float32Array, 1024, this.stream);
    array.copyFrom(new Float32Array(1024).fill(1));
    return array;
  }

  #once<T>(name: string, make: () => T): T {
    if (!this.#made.has(name)) this.#made.set(name, make());
    return this.#made.get(name) as T;
  }
}

const libc = dlopen("libc.so.6", {
  setenv: { parameters: ["buffer", "buffer", "i32"], result: "i32" },
  unsetenv: { parameters: ["buffer"], result: "i32" },
});

/** Sets what libc's getenv returns, which is what poolpass reads, and the names that the runtime knows. */
export function setVariable(name: string, value: string | undefined): void {
  // Bun has read the environment at its start.
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
  const text = (value: string) => new TextEncoder().encode(`${value}\0`);
  if (value === undefined) libc.symbols.unsetenv!(text(name));
  else libc.symbols.setenv!(text(name), text(value), 1);
}
