/**
 * Reads the layers of a `weights_exporter` in place: a kernel of this process computes with memory of the other
 * process. A layer is released in stream order, after the kernel.
 *
 *     deno run --allow-ffi examples/weights_importer.ts <socket_path> [layer ...]
 *       --hold yes  keeps each layer until the exporter recalls it
 *
 * Without names it reads all layers, including later offers, until the exporter closes.
 *
 * @module
 */
import { type CudaStream, Importer, open, type RemoteOffer } from "../mod.ts";
import { ptx } from "../kernels/saxpy.ts";
import { printable, readArguments, runProgram, say, UsageError } from "./command_line.ts";

const name = "importer";
const usage = "weights_importer <socket_path> [layer ...] [--hold yes]";
const about = `
Reads the layers of a weights_exporter in place: all layers, or those that are named.

--hold yes  keeps each layer until the exporter recalls it
`;
const geometry = { grid: 256, block: 256 };
/** The factor by which the layers are multiplied. */
const factor = 2.5;

async function main(signal: AbortSignal): Promise<void> {
  const { positional: [socketPath, ...layers], named } = readArguments(["hold"]);
  if (socketPath === undefined) throw new UsageError("A socket's path is needed");
  if (named.hold !== undefined && named.hold !== "yes") {
    throw new UsageError(`Cannot use "${named.hold}" as --hold: yes`);
  }

  using cuda = open();
  using stream = cuda.device(0).createStream();
  await using importer = await Importer.connect(cuda, socketPath, { signal });
  say(name, `Connected to process ${importer.peer.pid}`);
  const offers = layers.length === 0 ? importer.offers({ signal }) : offersOf(importer, layers, signal);
  for await (const offer of offers) await use(offer, stream, { hold: named.hold !== undefined, signal });
}

async function* offersOf(
  importer: Importer,
  names: readonly string[],
  signal: AbortSignal,
): AsyncIterable<RemoteOffer> {
  for (const name of names) yield await importer.offer(name, { signal });
}

/** Multiplies a layer with a kernel and prints the range of the results. */
async function use(
  offer: RemoteOffer,
  stream: CudaStream,
  { hold, signal }: { hold: boolean; signal: AbortSignal },
): Promise<void> {
  // Resolves once the exporter's kernel is done.
  using layer = await offer.map({ stream, signal });
  const { device } = stream;
  const length = layer.byteLength / Float32Array.BYTES_PER_ELEMENT;
  using pool = device.createPool();
  using result = pool.allocateArray(Float32Array, length, stream);
  using module = device.loadModule(ptx);
  result.fill(0, stream);
  module.kernel("saxpy").launch({ ...geometry, stream }, length, factor, layer, result);
  const values = await result.read(Float32Array, { signal });
  const [least, most] = values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [
    Infinity,
    -Infinity,
  ] as [number, number]);
  const what = printable(`${offer.name} ${JSON.stringify(offer.metadata)}`);
  console.log(`${what}: times ${factor} is ${least} to ${most}`);
  if (!hold) return;
  await recalled(offer, signal);
  say(name, `Asked to release ${offer.name}`);
}

/** Waits until the exporter recalls an offer, or has disconnected. */
function recalled({ recalled }: RemoteOffer, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (recalled.aborted) return resolve();
    recalled.addEventListener("abort", () => resolve());
    signal.addEventListener("abort", () => reject(signal.reason));
  });
}

if (await runProgram(name, main, { usage, about })) say(name, "Cleanup complete");
