/**
 * Offers the layers of a model to any number of processes, which read them in place: the device holds one copy of the
 * weights, however many processes use it. The memory is freed once the last process has released it or has ended.
 *
 *     deno run --allow-ffi examples/weights_exporter.ts <socket_path> [--layers 4] [--bytes 1MiB]
 *       --importers <n>  ends after n importers have disconnected, instead of on Ctrl-C
 *
 * Each layer is offered at once, even if the kernel that writes it is still running. Every element of layer n is n.
 * `weights_importer.ts` and `python/poolpass_client.py import <socket_path> layer1` read them.
 *
 * @module
 */
import { Exporter, open } from "../mod.ts";
import { ptx } from "../kernels/fill.ts";
import { parseBytes, parseCount, readArguments, runProgram, say, UsageError } from "./command_line.ts";

const name = "exporter";
const usage = "weights_exporter <socket_path> [--layers 4] [--bytes 1MiB] [--importers <n>]";
const about = `
Offers the layers of a model to any number of processes, which read them in place.

--layers <n>     the number of layers
--bytes <n>      the size of each layer: 1048576, 1024KiB or 1MiB
--importers <n>  ends after n importers have disconnected, instead of on Ctrl-C
`;
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
      say(name, `Process ${pid} disconnected: ${error?.message ?? "it is done"}`);
      if (--left === 0) over.resolve();
    },
  });

  // Freed before the exporter is disposed, which then waits for importers that still hold memory.
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
    say(name, `Process ${lease.peer.pid} has held ${lease.name} since ${lease.since.toISOString()}; recalling it`);
  }
  signal.throwIfAborted();
}

/** Returns the bits of a float. */
function bitsOf(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0]!;
}

if (await runProgram(name, main, { usage, about })) say(name, "Cleanup complete");
