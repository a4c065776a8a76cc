/**
 * Shares buffers of many sizes with other processes in every way there is, and prints what came of each: whether it was
 * shared with every byte right, or refused, and that no process ended by a signal.
 *
 *     deno run --allow-all --import-map import_map.json tests/soak/large_buffers.ts [--sizes 1,4096,5376] [--ways store]
 *
 * Sizes are in MiB. The ways: `pool`, an offer of memory from a pool; `raw`, the driver's own export data of such
 * memory, which the exporter sends without looking; `virtual`, an offer of virtual memory; `store`; and `rmm`, RMM's wire,
 * by the examples. Needs NVRTC or nvcc. Exits with 1 if a byte was wrong or a process ended by a signal.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "@std/cli/parse-args";
import { formatTable } from "../../examples/table.ts";
import {
  type Cuda,
  type DeviceBuffer,
  Exporter,
  Importer,
  MemoryStore,
  open,
  SharingError,
  StoreClient,
  UnixListener,
  UnixSocket,
} from "../../mod.ts";
import { sessionOf } from "../../src/objects/cuda.ts";
import { answerHelp } from "../support/program_help.ts";

answerHelp(import.meta.url, ["sizes", "ways", "import", "path"]);

const source = `
extern "C" __global__ void fill(unsigned long long* x, unsigned long long n, unsigned long long seed) {
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    x[i] = (i + seed) * 0x9e3779b97f4a7c15ull;
}
extern "C" __global__ void check(const unsigned long long* x, unsigned long long n, unsigned long long seed, int* wrong) {
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    if (x[i] != (i + seed) * 0x9e3779b97f4a7c15ull) atomicAdd(wrong, 1);
}`;
const grid = { grid: 512, block: 256 };
const mebibyte = 2 ** 20;
const childTimeout = 60_000;

type Kernel = "fill" | "check";

function launch(cuda: Cuda, kernel: Kernel, buffer: DeviceBuffer, ...last: DeviceBuffer[]): void {
  const gpu = cuda.device(0);
  using module = gpu.compile(source);
  const words = buffer.byteLength / 8;
  module.kernel(kernel).launch(grid, buffer, BigInt(words), BigInt(words), ...last);
  gpu.synchronize();
}

/** The part of another process: maps by a way, and says what came of it. */
async function importBy(way: string, path: string): Promise<string> {
  using cuda = open();
  const gpu = cuda.device(0);
  await using stack = new AsyncDisposableStack();
  let begin = performance.now();
  let buffer: DeviceBuffer;
  try {
    if (way === "store") {
      const client = stack.use(await StoreClient.connect(cuda, path));
      begin = performance.now();
      buffer = stack.use(await client.map("buffer"));
    } else if (way === "raw") {
      await using socket = await UnixSocket.connect(path);
      const { bytes, handles } = await socket.receive(72, { handles: 1 });
      using handle = handles[0]!;
      const pool = stack.use(gpu.importPool(handle));
      begin = performance.now();
      const byteLength = Number(new DataView(bytes.buffer).getBigUint64(64, true));
      buffer = stack.use(pool.importPointer(bytes.slice(0, 64), byteLength));
    } else {
      const importer = stack.use(await Importer.connect(cuda, path));
      const offer = await importer.offer("buffer");
      begin = performance.now();
      buffer = stack.use(await offer.map());
    }
  } catch (error) {
    return `refused by the importer: ${error instanceof SharingError ? error.code : error}`;
  }
  const time = performance.now() - begin;
  using wrong = gpu.allocate(4);
  wrong.fill(0);
  launch(cuda, "check", buffer, wrong);
  const [count] = wrong.readSync(Int32Array);
  return count === 0 ? `every byte right, mapped in ${time.toFixed(2)} ms` : `${count} words WRONG`;
}

async function otherProcess(way: string, path: string): Promise<string> {
  const args = ["run", "-A", "--import-map", fileURLToPath(new URL("../../import_map.json", import.meta.url))];
  return await run([...args, fileURLToPath(import.meta.url), "--import", way, "--path", path], childTimeout);
}

/** Runs a program of this runtime. Returns the last line that it has printed, or how it has ended. */
async function run(args: readonly string[], timeout: number): Promise<string> {
  const child = new Deno.Command(Deno.execPath(), { args: [...args], stdout: "piped", stderr: "piped" }).spawn();
  const timer = setTimeout(() => child.kill("SIGKILL"), timeout);
  const { code, signal, stdout, stderr } = await child.output();
  clearTimeout(timer);
  if (signal !== null) return `DIED of ${signal}`;
  const last = (bytes: Uint8Array) => new TextDecoder().decode(bytes).trimEnd().split("\n").at(-1)!;
  return code === 0 ? last(stdout) : `refused: ${last(stderr)}`;
}

const ways: Readonly<Record<string, (cuda: Cuda, byteLength: number, path: string) => Promise<string>>> = {
  async pool(cuda, byteLength, path) {
    using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
    using buffer = pool.allocate(byteLength);
    launch(cuda, "fill", buffer);
    await using exporter = Exporter.listen(path);
    exporter.offer("buffer", buffer);
    return await otherProcess("pool", path);
  },
  async raw(cuda, byteLength, path) {
    using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
    using buffer = pool.allocate(byteLength);
    launch(cuda, "fill", buffer);
    using handle = pool.exportHandle();
    const message = new Uint8Array(72);
    message.set(sessionOf(cuda).driver.memPoolExportPointer(buffer.address));
    new DataView(message.buffer).setBigUint64(64, BigInt(byteLength), true);
    await using listener = UnixListener.listen(path);
    const child = otherProcess("raw", path);
    await using socket = await listener.accept({ signal: AbortSignal.timeout(childTimeout) });
    await socket.send(message, { handles: [handle] });
    return await child;
  },
  async virtual(cuda, byteLength, path) {
    using buffer = cuda.device(0).allocate(byteLength, { handleType: "posix-fd" });
    launch(cuda, "fill", buffer);
    await using exporter = Exporter.listen(path);
    exporter.offer("buffer", buffer);
    return await otherProcess("virtual", path);
  },
  async store(cuda, byteLength, path) {
    await using _store = MemoryStore.listen(cuda, path);
    await using client = await StoreClient.connect(cuda, path);
    await using memory = await client.create("buffer", byteLength);
    launch(cuda, "fill", memory.buffer);
    await memory.publish();
    return await otherProcess("store", path);
  },
  async rmm(_cuda, byteLength) {
    const demo = fileURLToPath(new URL("../../examples/demo.ts", import.meta.url));
    return await run(["run", "-A", demo, "--bytes", String(byteLength)], childTimeout);
  },
};

const options = parseArgs(Deno.args, { string: ["sizes", "ways", "import", "path"] });
if (options.import !== undefined) {
  console.log(await importBy(options.import, options.path!));
} else {
  using cuda = open();
  const isSoftware = cuda.driver === "software";
  const sizes = (options.sizes ?? (isSoftware ? "1,64" : "1,4096,4097,5376,16384,65536")).split(",").map(Number);
  const wanted = options.ways?.split(",") ?? Object.keys(ways);
  const table = [["MiB", ...wanted]];
  for (const size of sizes) {
    const row = [String(size)];
    for (const way of wanted) {
      const folder = mkdtempSync("/tmp/poolpass-large-");
      try {
        row.push(await ways[way]!(cuda, size * mebibyte, `${folder}/socket`));
      } catch (error) {
        row.push(`refused by the exporter: ${error instanceof SharingError ? error.code : error}`);
      } finally {
        rmSync(folder, { recursive: true });
      }
    }
    table.push(row);
    console.log(row.join(" | "));
  }
  console.log(`\n${cuda.device(0).name}\n\n${formatTable(table)}`);
  if (table.flat().some((cell) => /DIED|WRONG/.test(cell))) Deno.exitCode = 1;
}
