/**
 * The conformance table.
 *
 * @module
 */
import { situations as allocations } from "./allocations.ts";
import { situations as copies } from "./copies.ts";
import { situations as defaultPools } from "./default_pools.ts";
import { situations as devices } from "./devices.ts";
import { situations as events } from "./events.ts";
import { situations as hostPools } from "./host_pools.ts";
import { situations as ipcEvents } from "./ipc_events.ts";
import { situations as ipcMemory } from "./ipc_memory.ts";
import { situations as launches } from "./launches.ts";
import { situations as modules } from "./modules.ts";
import { situations as nullPools } from "./null_pools.ts";
import { situations as poolAccess } from "./pool_access.ts";
import { situations as poolAttributes } from "./pool_attributes.ts";
import { situations as poolCreation } from "./pool_creation.ts";
import { situations as poolExport } from "./pool_export.ts";
import { situations as poolImport } from "./pool_import.ts";
import { situations as poolUsage } from "./pool_usage.ts";
import { situations as poolsBetweenProcesses } from "./pools_between_processes.ts";
import { situations as publicObjects } from "./public_objects.ts";
import { situations as publicPools } from "./public_pools.ts";
import { situations as reuse } from "./reuse.ts";
import type { Situation } from "./situation.ts";
import { situations as strangers } from "./strangers.ts";
import { situations as streams } from "./streams.ts";

const rowsByFile: Readonly<Record<string, readonly Situation[]>> = {
  devices,
  pool_creation: poolCreation,
  default_pools: defaultPools,
  null_pools: nullPools,
  pool_attributes: poolAttributes,
  pool_usage: poolUsage,
  allocations,
  reuse,
  pool_access: poolAccess,
  strangers,
  host_pools: hostPools,
  pool_export: poolExport,
  pool_import: poolImport,
  pools_between_processes: poolsBetweenProcesses,
  streams,
  events,
  launches,
  modules,
  copies,
  ipc_events: ipcEvents,
  ipc_memory: ipcMemory,
  public_pools: publicPools,
  public_objects: publicObjects,
};

const filesByRow: ReadonlyMap<Situation, string> = new Map(
  Object.entries(rowsByFile).flatMap(([file, rows]) => rows.map((row) => [row, file] as const)),
);

/** Every row of the table. */
export const situations: readonly Situation[] = [...filesByRow.keys()];

/** The names of all of its files, without their extension. */
export const files: readonly string[] = Object.keys(rowsByFile);

/** The name of the file, without its extension, that a row is in. */
export function fileOf(situation: Situation): string {
  return filesByRow.get(situation)!;
}
