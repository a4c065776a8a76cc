// A well-behaved process beside a misbehaving one: node tests/children/sharing/abuse_bystander.ts EXPORTER PATH
// [OTHER]. Reads the channel "frames" of the exporter and offers "steady" at PATH until it is killed. With each frame
// it maps "weights" of the other exporter, if there is one.
import process from "node:process";
import { open } from "../../../src/open.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";

const [exporterPath, path, otherPath] = process.argv.slice(2) as [string, string, string | undefined];
const cuda = open({ driver: "software" });
const importer = await Importer.connect(cuda, exporterPath);
const other = otherPath === undefined ? undefined : await Importer.connect(cuda, otherPath);
const frames = await importer.channel("frames");
const pool = cuda.device(0).createPool({ handleType: "posix-fd" });
const steady = pool.allocateArray(Uint32Array, 4);
steady.copyFrom(Uint32Array.of(1, 2, 3, 4));
Exporter.listen(path).offer("steady", steady);
console.log("ready");
for await (const slot of frames) {
  const [number] = await slot.buffer.read(Uint32Array);
  if (number !== slot.metadata) throw new Error(`Frame ${slot.metadata} has ${number}`);
  if (other !== undefined) {
    using weights = await (await other.offer("weights")).map();
    const [weight] = await weights.read(Uint32Array);
    if (weight !== 7) throw new Error(`The weights are ${weight}`);
  }
  slot.release();
}
