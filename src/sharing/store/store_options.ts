import {
  checkBoolean,
  checkMaximum,
  checkMilliseconds,
  checkOptions,
  type KnownOptions,
  whatIs,
} from "../../support/validation.ts";
import type { Cuda } from "../../objects/cuda.ts";
import type { CudaDevice } from "../../objects/cuda_device.ts";
import {
  checkCallback,
  type CompleteOptions,
  completeOptions,
  exporterOptionNames,
} from "../exporter/exporter_options.ts";
import { checkSocketPath } from "../transport/socket_path.ts";
import { allowedUsers } from "../transport/users.ts";
import type { MemoryStoreOptions } from "./memory_store.ts";
import { checkSaved, type SavedEntry } from "./memories/saved_entry.ts";
import type { BudgetLimits } from "./memories/store_budget.ts";
import { TypeError } from "../../support/program_errors.ts";

/** The options of a store, with default values filled in. */
export interface CompleteStoreOptions {
  /** The options that apply to the store's connections. */
  readonly connections: CompleteOptions;
  readonly limits: BudgetLimits;
  readonly saved: readonly SavedEntry[];
  readonly standby: string | undefined;
  readonly reclaimTimeout: number;
  readonly onServe: (() => void) | undefined;
  readonly onStandby: (() => void) | undefined;
}

const storeOptions: KnownOptions<MemoryStoreOptions> = {
  action: "listen for clients of a store",
  names: {
    ...exporterOptionNames,
    devices: true,
    maxSize: true,
    maxSizeOfUser: true,
    maxHostSize: true,
    evict: true,
    saved: true,
    standby: true,
    reclaimTimeout: true,
    onServe: true,
    onStandby: true,
  },
};

/**
 * Checks the options of a store, except `users`, and adds the default values.
 *
 * @throws {TypeError} If an option has the wrong type
 * @throws {RangeError} If an option is out of range
 */
export function completeStoreOptions(cuda: Cuda, options: MemoryStoreOptions): CompleteStoreOptions {
  checkOptions(options, storeOptions);
  const {
    devices = cuda.devices,
    maxSize = Infinity,
    maxSizeOfUser = Infinity,
    maxHostSize = Infinity,
    evict = false,
    saved = [],
    standby,
    reclaimTimeout = 10_000,
    onServe,
    onStandby,
    ...rest
  } = options;
  const connections = completeOptions(rest);
  if (evict !== "host") checkBoolean(evict, "evict");
  const stored = checkDevices(cuda, devices);
  checkSaved(saved, stored);
  checkCallback(onServe, "onServe");
  checkCallback(onStandby, "onStandby");
  // Check the type first, so that the error shows the original value and not the result of `markerOf`.
  if (standby !== undefined && typeof standby !== "string") checkSocketPath("listen for a standby at", standby);
  if (standby !== undefined) checkSocketPath("listen for a standby at", markerOf(standby));
  return {
    connections,
    limits: {
      devices: stored,
      maxSize: checkMaximum(maxSize, "maxSize"),
      maxSizeOfUser: checkMaximum(maxSizeOfUser, "maxSizeOfUser"),
      maxHostSize: checkMaximum(maxHostSize, "maxHostSize"),
      maximumMetadata: connections.maximumMetadata,
      evict,
      isShared: Array.isArray(connections.users) && allowedUsers(connections.users).length > 1,
    },
    saved: [...saved],
    standby,
    reclaimTimeout: checkMilliseconds(reclaimTimeout, "reclaimTimeout"),
    onServe,
    onStandby,
  };
}

/**
 * Returns the path at which an active standby listens. Since only one process can listen there, no other standby
 * becomes active. The standby accepts no connections at this path.
 */
export function markerOf(standbyPath: string): string {
  return `${standbyPath}.kept`;
}

function checkDevices(cuda: Cuda, devices: readonly CudaDevice[]): readonly CudaDevice[] {
  if (!Array.isArray(devices) || devices.length === 0) {
    throw new TypeError(`Cannot use ${whatIs(devices)} as devices: give an array of devices`);
  }
  for (const device of devices) {
    if (cuda.devices.includes(device)) continue;
    throw new TypeError(
      `Cannot use ${whatIs(device, "CudaDevice")} as a device of the store: give one of cuda.devices`,
    );
  }
  return [...devices];
}
