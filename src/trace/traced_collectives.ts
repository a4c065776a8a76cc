import type { CollectiveCall, CollectiveLibrary } from "../collective_library.ts";
import { SharingError } from "../support/errors.ts";
import { hashOf, nameType, noDeviceByte, type TracedRank } from "./trace_format.ts";
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
  /** This rank; undefined if it is not known. */
  readonly place: TracedRank | undefined;
  /** The number of collectives that were enqueued. */
  count: number;
  /** For each list of excluded ranks, the number of communicators that were shrunk from this one. */
  readonly shrinks: Map<string, number>;
}

/** Returns a library that records the collectives of another one. */
export function tracedCollectives(library: CollectiveLibrary, recorder: TraceRecorder): CollectiveLibrary {
  const communicators = new Map<bigint, TracedCommunicator>();
  const { values, now } = recorder;
  const recordJoin = (
    name: "commInitRank" | "commShrink",
    begin: number,
    comm: bigint,
    { group, device, ...place }: TracedRank & { readonly group: number; readonly device: number },
  ): bigint => {
    communicators.set(comm, { group, place, count: 0, shrinks: new Map() });
    recorder.name(nameType.communicator, group, JSON.stringify(place));
    const kind = recorder.kind({ name, values: ["communicator", "group", "rank", "size"] });
    const at = recorder.begin(kind, device, begin);
    values[at] = Number(comm);
    values[at + 1] = group;
    values[at + 2] = place.rank;
    values[at + 3] = place.size;
    recorder.end();
    return comm;
  };
  const communicatorOf = (comm: bigint): TracedCommunicator => {
    let known = communicators.get(comm);
    if (known === undefined) {
      communicators.set(comm, known = { group: 0, place: undefined, count: 0, shrinks: new Map() });
    }
    return known;
  };
  /** Returns what records a collective of a kind, which began at `begin`. */
  const recorderOf = (name: typeof collectives[number]) => {
    const kind = recorder.kind({ name, values: ["group", "collective", "count", "stream"] });
    return (begin: number, { comm, count, stream }: CollectiveCall, hasThrown: boolean): void => {
      const communicator = communicatorOf(comm);
      const at = recorder.begin(kind, noDeviceByte, begin, hasThrown);
      values[at] = communicator.group;
      values[at + 1] = ++communicator.count;
      values[at + 2] = count;
      values[at + 3] = Number(stream);
      recorder.end();
    };
  };
  const revoking = recorder.kind({ name: "commRevoke", values: ["group", "collective", "lost", "why"] });
  const ending = ["commDestroy", "commAbort"] as const;
  const calls: Partial<CollectiveLibrary> = {
    commInitRank(device, options) {
      const begin = now();
      const { id, rank, size } = options;
      return recordJoin("commInitRank", begin, library.commInitRank(device, options), {
        group: hashOf(id),
        rank,
        size,
        device,
      });
    },
    commShrink(comm, excluded) {
      const begin = now();
      const child = library.commShrink(comm, excluded);
      const { group, place, shrinks } = communicatorOf(comm);
      if (place === undefined) return child;
      const without = [...new Set(excluded)].sort((a, b) => a - b).filter((rank) => rank < place.size);
      const names = without.join(" ");
      const count = (shrinks.get(names) ?? 0) + 1;
      shrinks.set(names, count);
      return recordJoin("commShrink", begin, child, {
        // All ranks shrink a communicator in the same order.
        group: hashOf(new TextEncoder().encode(`${group} shrunk ${count} times without ${names}`)),
        rank: place.rank - without.filter((rank) => rank < place.rank).length,
        size: place.size - without.length,
        device: noDeviceByte,
      });
    },
    commRevoke(comm, revocation) {
      const { group, count } = communicatorOf(comm);
      const { why, completed } = revocation;
      recorder.instant(revoking, group, completed?.collectives ?? count, lostProcess(why), recorder.text(why.message));
      return library.commRevoke(comm, revocation);
    },
    repeatedAllReduce(parameters) {
      const call = library.repeatedAllReduce(parameters);
      const record = recorderOf("allReduce");
      return () => {
        const begin = now();
        let hasThrown = true;
        try {
          call();
          hasThrown = false;
        } finally {
          record(begin, parameters, hasThrown);
        }
      };
    },
  };
  for (const name of ending) {
    const kind = recorder.kind({ name, values: ["group"] });
    calls[name] = (comm: bigint) => {
      recorder.instant(kind, communicatorOf(comm).group);
      communicators.delete(comm);
      return library[name](comm);
    };
  }
  for (const name of collectives) {
    const record = recorderOf(name);
    const call = library[name].bind(library) as (call: CollectiveCall) => void;
    calls[name] = (parameters: CollectiveCall): void => {
      const begin = now();
      let hasThrown = true;
      try {
        call(parameters);
        hasThrown = false;
      } finally {
        record(begin, parameters, hasThrown);
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

/** Returns the ID of the process whose end an error names; 0 if it names none. */
function lostProcess(error: Error): number {
  if (!(error instanceof SharingError) || error.code !== "peer-gone") return 0;
  return Number(/ has ended\W+process (\d+)/.exec(error.message)?.[1] ?? 0);
}
