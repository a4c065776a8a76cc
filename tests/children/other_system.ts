/**
 * Uses the library as on another operating system, or without FFI: other_system.ts NAME|no-ffi. The runtime reports the
 * given system, and no library can be loaded, because none has its Linux name there. Prints one line of JSON: what
 * works, and the errors of the rest.
 *
 * @module
 */
import process from "node:process";

const [system] = process.argv.slice(2);
const hasFfi = system !== "no-ffi";
/** The libraries that the program tried to load. */
const asked: string[] = [];

function refuseToLoad(path: string): never {
  asked.push(path);
  throw new Error(`${path}: no such library`);
}

class NoLibrary {
  constructor(path: string) {
    refuseToLoad(path);
  }
}

const { Deno: deno } = globalThis as unknown as { Deno?: { build: object } };
if (deno !== undefined) {
  Object.defineProperty(deno, "dlopen", { value: hasFfi ? refuseToLoad : undefined });
  if (hasFfi) Object.defineProperty(deno, "build", { value: { ...deno.build, os: system } });
} else {
  const builtin = process.getBuiltinModule as (name: string) => object | undefined;
  process.getBuiltinModule = ((name: string) => {
    if (name !== "node:ffi" && name !== "bun:ffi") return builtin(name);
    return hasFfi ? { ...builtin(name), dlopen: refuseToLoad, DynamicLibrary: NoLibrary } : undefined;
  }) as typeof process.getBuiltinModule;
  if (hasFfi) Object.defineProperty(process, "platform", { value: system === "windows" ? "win32" : system });
}

const { Exporter, Importer, open, UnixListener, UnixSocket } = await import("../../mod.ts");
const { ptx } = await import("../../kernels/saxpy.ts");
const refusals: Record<string, string> = {};

async function attempt(what: string, body: () => unknown): Promise<void> {
  try {
    await body();
    refusals[what] = "works";
  } catch (error) {
    refusals[what] = (error as Error).message;
  }
}

using cuda = open();
const gpu = cuda.device(0);
using stream = gpu.createStream();
using pool = gpu.createPool();
using x = pool.allocateArray(Float32Array, 3, stream), y = pool.allocateArray(Float32Array, 3, stream);
x.copyFrom(Float32Array.of(1, 2, 3)), y.copyFrom(Float32Array.of(10, 20, 30));
using module = gpu.loadModule(ptx);
module.kernel("saxpy").launch({ grid: 1, block: 32, stream }, 3, 2, x, y);
using host = cuda.allocateHost(12);
y.copyTo(host);
await stream.finished();
const result = [...new Float32Array(host.buffer)];

using hostPool = cuda.createHostPool({ numaNode: 0 });
using inHost = hostPool.allocate(8, stream);
using memory = gpu.allocate(8);
await attempt("a pool to share", () => gpu.createPool({ handleType: "posix-fd" }));
await attempt("a host pool to share", () => cuda.createHostPool({ handleType: "posix-fd", numaNode: 0 }));
await attempt("hostView", () => inHost.hostView());
await attempt("an interprocess event", () => gpu.createEvent({ interprocess: true }));
await attempt("an event's handle", () => gpu.openEvent(new Uint8Array(64)));
await attempt("memory's handle", () => memory.exportHandle());
await attempt("memory by its handle", () => gpu.openMemory(new Uint8Array(64), 8));
await attempt("UnixListener", () => UnixListener.listen("/tmp/poolpass-nobody"));
await attempt("UnixSocket", () => UnixSocket.connect("/tmp/poolpass-nobody"));
await attempt("Exporter", () => Exporter.listen("/tmp/poolpass-nobody"));
await attempt("Importer", () => Importer.connect(cuda, "/tmp/poolpass-nobody"));
console.log(JSON.stringify({ driver: cuda.driver, result, refusals, asked }));
