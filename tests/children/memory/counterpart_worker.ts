/**
 * Works on offers. Arguments: the driver's name, the path to connect to, and the worker's name. For each offer that is
 * for this worker or for all, it does what the metadata say, one after the other: maps the memory, compares every byte,
 * overwrites it, and frees it, either at once or at the offer "let go". Prints a line of JSON for each offer. The offer
 * "end" ends the process.
 *
 * @module
 */
import process from "node:process";
import { Cuda } from "../../../src/objects/cuda.ts";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";
import { Session } from "../../../src/session.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import type { RemoteOffer } from "../../../src/sharing/importer/remote_offer.ts";
import { loadDriver } from "../../conformance/load_driver.ts";
import type { Job } from "../../memory/memory_ipc/counterparts_messages.ts";
import { countResources } from "../../support/resources.ts";
import { indexOfOther } from "../../support/bytes.ts";

const [driverName, path, ownName] = process.argv.slice(2) as [string, string, string];
const openDriver = await loadDriver(driverName);
/** The number of simultaneous mappings of each connection. */
const simultaneous = 3;
/** Descriptors that the runtime opens and closes at any time. */
const runtimeKinds = new Set(["socket", "pipe", "eventfd", "eventpoll"]);
using cuda = new Cuda(new Session(openDriver()));
const gpu = cuda.device(0);
const connections = await Promise.all([1, 2].map(() => Importer.connect(cuda, path)));
await using first = connections[0]!;
await using second = connections[1]!;
print({ connected: true });
const held: DeviceBuffer[] = [];
const pools = new Set<unknown>();
for await (const offer of first.offers()) {
  const job = offer.metadata as unknown as Job;
  if (job.for !== undefined && job.for !== ownName) continue;
  print({ name: offer.name, ...await perform(offer, job) });
  if (job.do === "end") break;
}

async function perform(offer: RemoteOffer, job: Job): Promise<Record<string, unknown>> {
  switch (job.do) {
    case "use": {
      using buffer = await offer.map();
      pools.add(buffer.pool);
      const isRight = await isFilled(buffer, job.expect);
      buffer.fill(job.write);
      return { isRight, pools: pools.size };
    }
    case "hold": {
      const buffer = await offer.map();
      held.push(buffer);
      const isRight = await isFilled(buffer, job.expect);
      if (job.write !== undefined) buffer.fill(job.write);
      await buffer.stream.finished();
      return { isRight };
    }
    case "use at once": {
      const there = await second.offer(offer.name);
      const attempts = [offer, there].flatMap((each) => Array.from({ length: simultaneous }, () => each.map()));
      const buffers = await Promise.all(attempts);
      const addresses = new Set(buffers.map(({ address }) => address)).size;
      const areRight: boolean[] = [];
      for (const buffer of buffers) {
        areRight.push(await isFilled(buffer, job.expect));
        buffer.free();
        gpu.synchronize();
      }
      return { addresses, areRight: areRight.every(Boolean) };
    }
    case "let go":
      for (const buffer of held.splice(0)) buffer.free();
      return {};
    case "count":
      gpu.synchronize();
      return { resources: [...countResources()].reduce((sum, [kind, n]) => runtimeKinds.has(kind) ? sum : sum + n, 0) };
    case "end":
      return {};
  }
}

async function isFilled(buffer: DeviceBuffer, byte: number): Promise<boolean> {
  return indexOfOther(await buffer.read(Uint8Array), byte) === -1;
}

function print(report: Record<string, unknown>): void {
  console.log(JSON.stringify(report));
}
