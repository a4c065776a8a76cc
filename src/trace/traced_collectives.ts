import type { CollectiveCall, CollectiveLibrary } from "../collective_library.ts";
import { noDeviceByte } from "./trace_format.ts";
import type { TraceRecorder } from "./trace_recorder.ts";

const collectives = [
  "allReduce",
  "reduce",
  "broadcast",
  "allGather",
  "reduceScatter",
  "allToAll",
  "send",
  "recv",
] as const satisfies readonly (keyof CollectiveLibrary)[];

/** What is known of a communicator. */
interface TracedCommunicator {
  /** A number that all ranks have for the communicator; 0 if this rank does not know it. */
  readonly group: number;
  /** The number of collectives that were enqueued. */
  count: number;
}

/** Returns a library that records the collectives of another one. */
export function tracedCollectives(library: CollectiveLibrary, recorder: TraceRecorder): CollectiveLibrary {
  const communicators = new Map<bigint, TracedCommunicator>();
  const { values, now } = recorder;
  const joining = recorder.kind({ name: "commInitRank", values: ["communicator", "group", "rank", "size"] });
  const calls: Partial<CollectiveLibrary> = {
    commInitRank(device, options) {
      const begin = now();
      const comm = library.commInitRank(device, options);
      const group = hashOf(options.id);
      communicators.set(comm, { group, count: 0 });
      const at = recorder.begin(joining, device, begin);
      values[at] = Number(comm);
      values[at + 1] = group;
      values[at + 2] = options.rank;
      values[at + 3] = options.size;
      recorder.end();
      return comm;
    },
  };
  for (const name of collectives) {
    const kind = recorder.kind({ name, values: ["group", "collective", "count", "stream"] });
    const call = library[name].bind(library) as (call: CollectiveCall) => void;
    calls[name] = (parameters: CollectiveCall): void => {
      const begin = now();
      let communicator = communicators.get(parameters.comm);
      if (communicator === undefined) communicators.set(parameters.comm, communicator = { group: 0, count: 0 });
      let hasThrown = true;
      try {
        call(parameters);
        hasThrown = false;
      } finally {
        const at = recorder.begin(kind, noDeviceByte, begin, hasThrown);
        values[at] = communicator.group;
        values[at + 1] = ++communicator.count;
        values[at + 2] = parameters.count;
        values[at + 3] = Number(parameters.stream);
        recorder.end();
      }
    };
  }
  return new Proxy(library, {
    get(_, name) {
      const value: unknown = calls[name as keyof CollectiveLibrary] ?? Reflect.get(library, name, library);
      return typeof value === "function" ? value.bind(library) : value;
    },
  });
}

/** Returns a number of 48 bits for bytes, by FNV-1a. */
export function hashOf(bytes: Uint8Array): number {
  let low = 0x811c9dc5, high = 0;
  for (const byte of bytes) {
    low = Math.imul(low ^ byte, 0x01000193) >>> 0;
    high = (Math.imul(high, 31) + low) & 0xffff;
  }
  return high * 2 ** 32 + low;
}
