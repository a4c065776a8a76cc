/**
 * The conformance table.
 *
 * @module
 */
import { situations as allocations } from "./situations/allocations.ts";
import { situations as captures } from "./situations/captures.ts";
import { situations as conditionalGraphs } from "./situations/conditional_graphs.ts";
import { situations as contextEvents } from "./situations/context_events.ts";
import { situations as copies } from "./situations/copies.ts";
import { situations as defaultPools } from "./situations/default_pools.ts";
import { situations as devices } from "./situations/devices.ts";
import { situations as events } from "./situations/events.ts";
import { situations as graphArguments } from "./situations/graph_arguments.ts";
import { situations as graphMemory } from "./situations/graph_memory.ts";
import { situations as graphs } from "./situations/graphs.ts";
import { situations as hostLimits } from "./situations/host_limits.ts";
import { situations as hostPools } from "./situations/host_pools.ts";
import { situations as ipcEvents } from "./situations/ipc_events.ts";
import { situations as ipcMemory } from "./situations/ipc_memory.ts";
import { situations as kernelBehavior } from "./situations/kernel_behavior.ts";
import { situations as launchAttributes } from "./situations/launch_attributes.ts";
import { situations as launches } from "./situations/launches.ts";
import { situations as linking } from "./situations/linking.ts";
import { situations as managed } from "./situations/managed.ts";
import { situations as modules } from "./situations/modules.ts";
import { situations as nonPeers } from "./situations/non_peers.ts";
import { situations as nullPools } from "./situations/null_pools.ts";
import { situations as pitchedCopies } from "./situations/pitched_copies.ts";
import { situations as pointers } from "./situations/pointers.ts";
import { situations as poolAccess } from "./situations/pool_access.ts";
import { situations as poolAttributes } from "./situations/pool_attributes.ts";
import { situations as poolCreation } from "./situations/pool_creation.ts";
import { situations as poolExport } from "./situations/pool_export.ts";
import { situations as poolImport } from "./situations/pool_import.ts";
import { situations as poolProperties } from "./situations/pool_properties.ts";
import { situations as poolUsage } from "./situations/pool_usage.ts";
import { situations as poolsBetweenProcesses } from "./situations/pools_between_processes.ts";
import { situations as publicObjects } from "./situations/public_objects.ts";
import { situations as publicPools } from "./situations/public_pools.ts";
import { situations as reuse } from "./situations/reuse.ts";
import { situations as reuseOfPieces } from "./situations/reuse_of_pieces.ts";
import type { Situation } from "./situation.ts";
import { situations as streams } from "./situations/streams.ts";
import { situations as textures } from "./situations/textures.ts";
import { situations as virtualMemory } from "./situations/virtual_memory.ts";
import { situations as waitingBlocks } from "./situations/waiting_blocks.ts";

const rowsByFile: Readonly<Record<string, readonly Situation[]>> = {
  devices,
  pool_creation: poolCreation,
  pool_properties: poolProperties,
  default_pools: defaultPools,
  null_pools: nullPools,
  pool_attributes: poolAttributes,
  pool_usage: poolUsage,
  allocations,
  reuse,
  reuse_of_pieces: reuseOfPieces,
  pool_access: poolAccess,
  non_peers: nonPeers,
  host_pools: hostPools,
  managed,
  host_limits: hostLimits,
  pool_export: poolExport,
  pool_import: poolImport,
  pools_between_processes: poolsBetweenProcesses,
  streams,
  events,
  context_events: contextEvents,
  kernel_behavior: kernelBehavior,
  waiting_blocks: waitingBlocks,
  captures,
  graphs,
  graph_memory: graphMemory,
  graph_arguments: graphArguments,
  conditional_graphs: conditionalGraphs,
  launches,
  modules,
  linking,
  copies,
  pitched_copies: pitchedCopies,
  pointers,
  ipc_events: ipcEvents,
  ipc_memory: ipcMemory,
  public_pools: publicPools,
  public_objects: publicObjects,
  launch_attributes: launchAttributes,
  textures,
  virtual_memory: virtualMemory,
};

const filesByRow: ReadonlyMap<Situation, string> = new Map(
  Object.entries(rowsByFile).flatMap(([file, rows]) => rows.map((row) => [row, file] as const)),
);

/** Every row of the table. */
export const situations: readonly Situation[] = [...filesByRow.keys()];

/** The names of the files of rows, without extension. */
export const files: readonly string[] = Object.keys(rowsByFile);

/** Returns the name of a row's file, without extension. */
export function fileOf(situation: Situation): string {
  return filesByRow.get(situation)!;
}
