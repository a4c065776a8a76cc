import { version } from "../../support/version.ts";
import type { ExporterTotals } from "../exporter/exporter_statistics.ts";
import { ListLimits } from "../operator/list_limits.ts";
import type { StoreEntryState, StoreStatus } from "../operator/status.ts";
import { ownProcessId } from "../transport/peer_process.ts";
import type { StoreLimits } from "./memories/store_budget.ts";
import type { Holder, Stored } from "./memories/stored.ts";
import { metadataText } from "./memories/stored_record.ts";
import type { StoredMemories } from "./memories/stored_memories.ts";

/** What `storeStatusOf` needs to know of a store. */
interface StoreState {
  readonly path: string;
  readonly totals: ExporterTotals;
  readonly clients: number;
  readonly operators: number;
  readonly limits: StoreLimits;
  readonly memories: StoredMemories;
}

/** The status of a store for operators. */
export function storeStatusOf({ path, totals, clients, operators, limits, memories }: StoreState): StoreStatus {
  const listed = new ListLimits();
  const entries: StoreStatus["entries"][number][] = [];
  let count = 0, byteLength = 0;
  for (const memory of memories.all) {
    count++;
    byteLength += memory.size;
    if (listed.takeRow()) entries.push(entryOf(memory, listed));
  }
  return {
    kind: "store",
    version,
    pid: ownProcessId(),
    statistics: {
      path,
      since: totals.since,
      clients,
      operators,
      entries: count,
      byteLength,
      published: memories.publishedTotal,
    },
    limits: { maxSize: orNull(limits.maxSize), maxSizeOfUser: orNull(limits.maxSizeOfUser) },
    entries,
    leftOut: listed.leftOut,
  };
}

function entryOf(memory: Stored, listed: ListLimits): StoreStatus["entries"][number] {
  const { name, generation, state, byteLength, device, created, published, metadata, readers, writer } = memory;
  return {
    name,
    generation,
    state: stateNames[state],
    byteLength,
    device,
    since: published || created,
    ...listed.takeMetadata(metadata === undefined ? "" : metadataText(metadata)),
    readers: listed.takeHolders([...readers]).map(([reader, { since }]) => processOf(reader, since)),
    ...writer === undefined ? {} : { writer: processOf(writer, created) },
  };
}

const stateNames: Readonly<Record<Stored["state"], StoreEntryState>> = {
  new: "unpublished",
  published: "published",
  replaced: "replaced",
  removed: "removed",
};

function processOf({ peer: { pid, uid } }: Holder, since: number) {
  return { pid, uid, since };
}

/** A limit for a status: an integer, or null if it exceeds every device's memory. */
function orNull(size: number): number | null {
  return size > Number.MAX_SAFE_INTEGER ? null : Math.floor(size);
}
