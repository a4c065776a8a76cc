/**
 * Offers the layers of a model to any number of processes, which read them in place: one copy of the weights on the
 * device, however many use it. The memory goes only when the last of them has let go of it, or has ended.
 *
 *     deno run --allow-ffi examples/weights_exporter.ts <socket_path> [--layers 4] [--bytes 1MiB]
 *       --importers <n>  ends when so many have come and gone, rather than by Ctrl-C
 *
 * Each layer is announced at once, while the kernel that writes it may still run. Layer n holds the number n everywhere.
 * `weights_importer.ts` reads them, and so does `python/poolpass_client.py import <socket_path> layer1`.
 *
 * @module
 */
import { Exporter, open } from "../mod.ts";
import { ptx } from "../kernels/fill.ts";
import { parseBytes, parseCount, readArguments, runProgram, say, UsageError } from "./command_line.ts";

const name = "exporter";
const usage = "weights_exporter <socket_path> [--layers 4] [--bytes 1MiB] [--importers <n>]";
const geometry = { grid: 256, block: 256 };

async function main(signal: AbortSignal): Promise<void> {
  const { positional: [socketPath, ...surplus], named } = readArguments(["layers", "bytes", "importers"]);
  if (socketPath === undefined || surplus.length > 0) throw new UsageError("One argument is needed: a socket's path");
  const layers = parseCount(named.layers ?? "4", { what: "the number of layers", least: 1 });
  const length = parseBytes(named.bytes ?? "1MiB") / Float32Array.BYTES_PER_ELEMENT;
  if (!Number.isInteger(length)) throw new UsageError("The bytes of a layer must be a multiple of 4");
  const importers = named.importers === undefined
    ? Infinity
    : parseCount(named.importers, { what: "the number of importers", least: 1 });

  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using module = gpu.loadModule(ptx);
  const over = Promise.withResolvers<void>();
  let left = importers;
  await using exporter = Exporter.listen(socketPath, {
    onDisconnect({ pid }, error) {
      say(name, `Process ${pid} is gone: ${error?.message ?? "it is done"}`);
      if (--left === 0) over.resolve();
    },
  });

  // Freed before the exporter is closed, which then waits for those who still hold something.
  using weights = new DisposableStack();
  for (let layer = 1; layer <= layers; layer++) {
    const buffer = weights.use(pool.allocateArray(Float32Array, length, stream));
    module.kernel("fill").launch({ ...geometry, stream }, buffer, buffer.byteLength, bitsOf(layer));
    exporter.offer(`layer${layer}`, buffer, { metadata: { dtype: "float32", shape: [length] } });
  }
  say(name, `Offering ${layers} layers at ${socketPath}`);

  signal.addEventListener("abort", () => over.resolve());
  await over.promise;
  for (const lease of exporter.leases) {
    say(name, `Process ${lease.peer.pid} holds ${lease.name} since ${lease.since.toISOString()}, and is asked for it`);
  }
  signal.throwIfAborted();
}

/** The bits of a float. */
function bitsOf(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0]!;
}

if (await runProgram(name, main, { usage })) say(name, "Cleanup complete");
