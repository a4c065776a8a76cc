// Uses the features of the public API on each of several machines and prints the outcomes, one line of JSON for each
// machine: try_features.ts MACHINE... A machine is one of: the settings of machines.ts, separated by commas; two of
// these, separated by a semicolon, where the second maps what the first offers; "as it is"; "nobody", which first
// changes the user of the process; or "darwin", which makes the runtime report that operating system.
import process from "node:process";
import { dlopen, platform } from "../../../ffi/native/host.ts";
import { ptx } from "../../../kernels/saxpy.ts";
import { type Cuda, Exporter, Importer, open } from "../../../mod.ts";

const nobody = 65534;
/** An ELF file for the machine that stands for CUDA, and the beginning of LTO IR. */
const [cubin, ltoir] = [new Uint8Array(64), new Uint8Array(64)];
cubin.set([0x7f, 0x45, 0x4c, 0x46]);
cubin[18] = 190;
ltoir.set([0xed, 0x43, 0x4e, 0x7f]);

for (const machine of process.argv.slice(2)) console.log(JSON.stringify(await outcomesOn(machine)));

function outcomesOn(machine: string): Promise<Record<string, string>> {
  if (machine.includes(";")) return offerBetween(machine.split(";"));
  if (machine === "nobody") becomeNobody();
  else if (machine === "darwin") pretendDarwin();
  else if (machine !== "as it is") simulate(machine);
  return openAndUse();
}

function becomeNobody(): void {
  process.setgid!(nobody);
  process.setuid!(nobody);
}

function pretendDarwin(): void {
  const { Deno: deno } = globalThis as { Deno?: { build: object } };
  if (deno === undefined) Object.defineProperty(process, "platform", { value: "darwin" });
  else Object.defineProperty(deno, "build", { value: { ...deno.build, os: "darwin" } });
}

function simulate(settings: string): void {
  const library = dlopen("libcuda.so.1", {
    machine_set: { parameters: ["i32", /* int setting */ "i32" /* int value */], result: "void" },
  });
  // The library stays open, because closing it would discard the settings.
  for (const [setting, value] of settings.split(",").entries()) {
    library.symbols.machine_set!(setting, Number(value));
  }
}

/** Returns the result or the error of each feature, by name. */
async function openAndUse(): Promise<Record<string, string>> {
  let cuda: Cuda;
  try {
    cuda = open();
  } catch (error) {
    return { open: String(error) };
  }
  try {
    if (cuda.driver === "software") {
      return { open: "the software device", ...platform().os === "linux" ? {} : { cuda: await outcomeOf(openCuda) } };
    }
    return { open: `CUDA ${cuda.driverVersion}, libcudart ${cuda.runtimeVersion}`, ...await use(cuda) };
  } finally {
    cuda[Symbol.dispose]();
  }
}

async function offerBetween(machines: readonly string[]): Promise<Record<string, string>> {
  const [from, to] = machines.map((settings) => {
    simulate(settings);
    const cuda = open();
    // Reads the UUID of the device before the settings of the next machine change it.
    cuda.device(cuda.device(0).uuid);
    return cuda;
  });
  try {
    return { offer: await outcomeOf(() => offer(from!, to!)) };
  } finally {
    for (const cuda of [from, to]) cuda![Symbol.dispose]();
  }
}

function openCuda(): void {
  open({ driver: "cuda" })[Symbol.dispose]();
}

async function use(cuda: Cuda): Promise<Record<string, string>> {
  const gpu = cuda.device(0);
  const attempts: Record<string, () => string | void | Promise<void>> = {
    device: () => `${gpu.name}, ${gpu.uuid}`,
    "find by UUID": () => void cuda.device(gpu.uuid),
    "stream priorities"() {
      const { least, greatest } = gpu.streamPriorityRange();
      return `${least} to ${greatest}`;
    },
    allocate() {
      using buffer = gpu.allocate(1024);
      buffer.copyFrom(new Float32Array(256));
    },
    "fill with elements"() {
      using array = gpu.allocate(64);
      array.as(Uint16Array).fill(0x1234, undefined, { end: 8 });
      array.as(Uint32Array).fill(0xfedcba98, undefined, { end: 8 });
      array.as(BigUint64Array).fill(0x0123456789abcdefn);
    },
    launch() {
      using stream = gpu.createStream();
      using buffer = gpu.allocate(1024);
      using module = gpu.loadModule(ptx);
      module.kernel("saxpy").launch({ grid: 1, block: 32, stream }, 256, 2, buffer, buffer);
      stream.synchronize();
    },
    wrap() {
      using buffer = gpu.allocate(1024);
      using wrapped = gpu.wrap(buffer.address, 1024);
      wrapped.fill(1);
    },
    "wrap a stream"() {
      using stream = gpu.createStream();
      using wrapped = gpu.wrapStream(stream.unsafeHandle);
      wrapped.synchronize();
    },
    "a stream's priority"() {
      using stream = gpu.createStream({ priority: -3 });
      return `${stream.priority}`;
    },
    "page-locked memory in a kernel"() {
      using host = cuda.allocateHost(1024);
      using module = gpu.loadModule(ptx);
      module.kernel("saxpy").launch({ grid: 1, block: 32 }, 256, 2, host, host);
      gpu.synchronize();
    },
    async benchmark() {
      using stream = gpu.createStream();
      await stream.benchmark(() => {}, { repetitions: 3 });
    },
    profile() {
      using _profile = cuda.profile();
    },
    "options of the JIT"() {
      using module = gpu.loadModule(ptx, { maxRegisters: 32, optimizationLevel: 3, verbose: true });
      return module.log;
    },
    link() {
      using module = gpu.link([ptx, { name: "cubin", image: cubin }], { lineInfo: true, debug: true });
      return `${module.kernelNames.join(", ")}; ${module.log}`;
    },
    "link what is broken": () => void gpu.link([ptx, { name: "b.ptx", image: `${ptx}// broken` }]),
    "link newer PTX": () => void gpu.link([{ name: "a.ptx", image: `${ptx}// newer` }]),
    "link LTO IR": () => void gpu.link([ptx, ltoir]),
    "a cubin's parameters"() {
      using module = gpu.loadModule(cubin);
      const kernel = module.kernel("kernel_of_cubin");
      kernel.launch({ grid: 1, block: 1 }, new Float32Array(1), 1, 0n);
      return `${kernel.parameters.map((type) => typeof type === "object" ? type.byteLength : type)}`;
    },
    "a cubin's parameters with types"() {
      using module = gpu.loadModule(cubin);
      module.kernel("kernel_of_cubin", { parameters: ["f32", "u8", "pointer"] });
      module.kernel("kernel_of_cubin", { parameters: ["f32", "pointer"] });
    },
    async "wait for a device"() {
      using _stream = gpu.createStream();
      await gpu.finished();
    },
    "more shared memory"() {
      using module = gpu.loadModule(ptx);
      module.kernel("saxpy").launch({ grid: 1, block: 32, sharedMemoryBytes: 100_000 }, 0, 2, 0n, 0n);
      gpu.synchronize();
    },
    "launch attributes"() {
      using stream = gpu.createStream();
      using module = gpu.loadModule(ptx);
      module.kernel("saxpy").launch(
        {
          grid: [32, 2, 3],
          block: [64, 4],
          stream,
          sharedMemoryBytes: 2048,
          cluster: [16, 2],
          cooperative: true,
          priority: -5,
          programmaticStreamSerialization: true,
        },
        0,
        2,
        0n,
        0n,
      );
    },
    clusters() {
      using module = gpu.loadModule(ptx);
      return `${module.kernel("saxpy").maxActiveClusters({ block: 64, cluster: 2 })} fit`;
    },
    "kernel attributes"() {
      using module = gpu.loadModule(ptx);
      const kernel = module.kernel("saxpy");
      kernel.cacheConfig = "l1";
      kernel.preferredSharedMemoryCarveout = "max-shared";
      const { block, minimumGrid } = kernel.maxPotentialBlockSize({ sharedMemoryBytes: 1024, blockSizeLimit: 96 });
      const values = [...Object.values(kernel.attributes), kernel.preferredSharedMemoryCarveout, block, minimumGrid];
      return values.join(" ");
    },
    "interprocess event"() {
      using event = gpu.createEvent({ interprocess: true });
      event.exportHandle();
    },
    pool() {
      using pool = gpu.createPool({ releaseThreshold: Infinity });
      using stream = gpu.createStream();
      using _buffer = pool.allocate(1024, stream);
    },
    "default pool": () => void gpu.defaultPool,
    share() {
      using pool = gpu.createPool({ handleType: "posix-fd" });
      using buffer = pool.allocate(1024);
      using handle = pool.exportHandle();
      using imported = gpu.importPool(handle);
      using _mapped = imported.importPointer(buffer.exportPointer(), 1024);
    },
    offer: () => offer(cuda, cuda),
    "virtual memory"() {
      using memory = gpu.createMemory(1, { handleType: "posix-fd" });
      using handle = memory.exportHandle();
      using imported = gpu.importMemory(handle, memory.byteLength);
      using range = cuda.reserveAddresses(memory.byteLength);
      range.map(imported).fill(1);
      range.setAccess(gpu, "read");
      return `${range.mappedByteLength} bytes are mapped`;
    },
    fabric() {
      using _pool = gpu.createPool({ handleType: "fabric" });
    },
    maxSize() {
      using _pool = gpu.createPool({ maxSize: 1 << 20 });
    },
    "host pool"() {
      using _pool = cuda.createHostPool({ numaNode: 0 });
    },
  };
  const outcomes: Record<string, string> = {};
  for (const [what, attempt] of Object.entries(attempts)) outcomes[what] = await outcomeOf(attempt);
  return outcomes;
}

/** Offers a buffer on the device of `from` and maps it on the device of `to`. */
async function offer(from: Cuda, to: Cuda): Promise<void> {
  const path = `/tmp/poolpass-features-${process.pid}`;
  using pool = from.device(0).createPool({ handleType: "posix-fd" });
  await using exporter = Exporter.listen(path);
  using buffer = pool.allocate(1024);
  exporter.offer("buffer", buffer);
  await using importer = await Importer.connect(to, path);
  using stream = to.device(0).createStream();
  const offer = await importer.offer("buffer");
  using _mapped = await offer.map({ stream });
}

async function outcomeOf(attempt: () => string | void | Promise<void>): Promise<string> {
  try {
    return await attempt() ?? "works";
  } catch (error) {
    return String(error);
  }
}
