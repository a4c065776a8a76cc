// An importer that may open few descriptors: node tests/children/sharing/map_some_offers.ts PATH NAME... Maps the offers
// of these names one after another, or imports their pools, and prints the first number in each, or the error. With
// --hold COUNT after PATH, it releases each only when it has mapped so many others. Then it prints how many descriptors
// it has opened and not closed again. With --export COUNT after PATH, offers so many buffers instead, each of a pool of
// its own, until it is killed.
import process from "node:process";
import { readdirSync } from "node:fs";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";
import { open } from "../../../src/open.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";

// Deno opens descriptors for signals about a second after its start. It opens them here, before they are counted.
const ignore = () => {};
process.on("SIGUSR2", ignore);
process.off("SIGUSR2", ignore);

const [path, ...names] = process.argv.slice(2) as [string, ...string[]];
const cuda = open({ driver: "software" });

if (names[0] === "--export") exportOffers(Number(names[1]));
else if (names[0] === "--hold") await mapOffers(names.slice(2), Number(names[1]));
else await mapOffers(names, 0);

function exportOffers(count: number): void {
  const exporter = Exporter.listen(path);
  for (let i = 0; i < count; i++) {
    const pool = cuda.device(0).createPool({ handleType: "posix-fd" });
    exporter.offer(`offer ${i}`, pool.allocateArray(new Uint32Array([1000 + i])));
  }
  console.log("ready");
}

async function mapOffers(names: readonly string[], holds: number): Promise<void> {
  try {
    // The first connection opens what the whole process shares.
    await (await Importer.connect(cuda, path))[Symbol.asyncDispose]();
    const before = countDescriptors();
    {
      await using importer = await Importer.connect(cuda, path);
      const held: DeviceBuffer[] = [];
      for (const name of names) {
        console.log(`${name}:`, await valueOf(importer, name, held).catch(messageOf));
        if (held.length > holds) held.shift()!.free();
      }
      for (const mapped of held) mapped.free();
    }
    // A descriptor that could linger is closed on a thread of its own.
    const end = performance.now() + 5000;
    while (countDescriptors() > before && performance.now() < end) await new Promise((done) => setTimeout(done, 5));
    console.log("left open:", Math.max(0, countDescriptors() - before));
  } catch (error) {
    console.log("connect:", messageOf(error));
  }
}

async function valueOf(importer: Importer, name: string, held: DeviceBuffer[]): Promise<unknown> {
  const offer = await importer.offer(name);
  if (offer.kind === "pool") {
    using pool = offer.importPool();
    return pool.device.ordinal;
  }
  const mapped = await offer.map();
  held.push(mapped);
  return (await mapped.read(Uint32Array))[0];
}

function countDescriptors(): number {
  return readdirSync("/proc/self/fd").length;
}

function messageOf(error: unknown): string {
  const { code, message } = error as { code?: string; message: string };
  return `${code}: ${message}`;
}
