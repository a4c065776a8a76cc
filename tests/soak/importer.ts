// Maps and releases all offers, then reads a channel, and reports its measurements: importer.ts PATH EVERY_CYCLES
// EVERY_FRAMES
import { Importer, open } from "../../mod.ts";
import { measure } from "./growth.ts";

using cuda = open();
using stream = cuda.device(0).createStream();
await using importer = await Importer.connect(cuda, Deno.args[0]!);
const [everyCycles, everyFrames] = Deno.args.slice(1).map(Number) as [number, number];
let cycles = 0;
for await (const offer of importer.offers()) {
  if (offer.kind !== "buffer") break;
  using buffer = await offer.map({ stream });
  if (cycles % 1000 === 0) {
    const [byte] = await buffer.read(Uint8Array, { length: 1 });
    if (byte !== ((offer.metadata as number) & 255)) throw new Error(`${offer.name} holds ${byte}`);
  }
  cycles++;
  report(cycles, everyCycles);
}
let frames = 0;
await using channel = await importer.channel("frames", { stream });
for await (const slot of channel) {
  if (frames % 1000 === 0) {
    const [byte] = await slot.buffer.read(Uint8Array, { length: 1 });
    if (byte !== ((slot.metadata as number) & 255)) throw new Error(`frame ${slot.sequence} holds ${byte}`);
  }
  slot.release();
  frames++;
  report(frames, everyFrames);
}
console.log(`the importer has mapped ${cycles} buffers and read ${frames} frames`);

function report(count: number, every: number): void {
  if (count === 1000 || count % every === 0) console.log(JSON.stringify(measure()));
}
