/**
 * The reading end of the channel benchmark: reads every channel that the producer creates, until it is killed.
 *
 * @module
 */
import { type CudaStream, Importer, open } from "../../mod.ts";
import { frameLaunch, loadKernel } from "./kernels.ts";

const [path] = Deno.args;
using cuda = open();
const device = cuda.device(0);
using stream: CudaStream = device.createStream({ nonBlocking: true });
const readFrame = loadKernel(device, "read_frame");
await using importer = await Importer.connect(cuda, path!);
for await (const { kind, name, metadata } of importer.offers()) {
  if (kind !== "channel") continue;
  const firstFrame = metadata as number;
  using numbers = await (await importer.offer(`numbers ${firstFrame}`)).map({ stream });
  await using frames = await importer.channel(name, { stream });
  const { shape, vectors } = frameLaunch(frames.slotByteLength);
  for await (const slot of frames) {
    const position = slot.sequence - 1;
    readFrame.launch({ ...shape, stream }, slot.buffer, vectors, firstFrame + position, numbers, position);
    slot.release();
  }
}
