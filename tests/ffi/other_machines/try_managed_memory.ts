// Uses managed memory on the machine that the variable MACHINE describes, and prints the outcomes as one line of JSON.
import { type MemoryLocation, open } from "../../../mod.ts";

using cuda = open();
const gpu = cuda.device(0);
using stream = gpu.createStream();
using buffer = gpu.allocateManaged(4096);
const { advice } = buffer;

const nameOf = (location: MemoryLocation | undefined): string => {
  if (location === undefined || typeof location === "string") return String(location);
  return "numaNode" in location ? `node ${location.numaNode}` : `device ${location.ordinal}`;
};
const prefetch = (location: MemoryLocation) => () => {
  buffer.prefetch(location, stream);
  return nameOf(advice.lastPrefetchLocation);
};
const prefer = (location: MemoryLocation | undefined) => () => {
  advice.preferredLocation = location;
  return nameOf(advice.preferredLocation);
};

const attempts: Readonly<Record<string, () => string>> = {
  "no advice": () => `${advice.readMostly} ${nameOf(advice.preferredLocation)} ${advice.accessedBy.length}`,
  "read mostly"() {
    advice.readMostly = true;
    return `${advice.readMostly}`;
  },
  "to the device": prefetch(gpu),
  "to the host": prefetch("host"),
  "to a node": prefetch({ numaNode: 1 }),
  "preferred device": prefer(gpu),
  "preferred host": prefer("host"),
  "preferred node": prefer({ numaNode: 1 }),
  "not preferred": prefer(undefined),
  "discard"() {
    buffer.discard(stream);
    return "works";
  },
  "discard and prefetch"() {
    buffer.discard({ stream, prefetch: gpu });
    return nameOf(advice.lastPrefetchLocation);
  },
  "managed pool"() {
    using pool = cuda.createManagedPool();
    return `${pool.isManaged}`;
  },
  "default pool of the host": () => nameOf(cuda.getDefaultPool("host").location),
};

const outcomes: Record<string, string> = {};
for (const [name, attempt] of Object.entries(attempts)) {
  try {
    outcomes[name] = attempt();
  } catch (error) {
    outcomes[name] = String(error);
  }
}
console.log(JSON.stringify(outcomes));
