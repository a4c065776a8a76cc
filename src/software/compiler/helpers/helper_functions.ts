/**
 * The functions that compiled kernels call: first the imported functions, then the helpers that are part of every
 * module.
 *
 * @module
 */
import {
  type AddressHelper,
  addressHelpers,
  type MemoryBarrierHelper,
  memoryBarrierHelpers,
} from "./address_helpers.ts";
import { type CheckHelper, checkHelpers } from "./check_helpers.ts";
import { type FloatHelper, floatHelpers } from "./float_helpers.ts";
import type { HelperBuilder, HelperFunction } from "./helper_function.ts";
import { hostFunctionCount, type HostFunctionName, hostFunctionTypes, hostIndex } from "../../abi/host_functions.ts";
import { type RaceHelper, raceHelpers } from "./race_helpers.ts";
import { type ShadowHelper, shadowHelpers } from "./shadow_helpers.ts";

/** The name of a function that kernels can call. */
export type Helper =
  | HostFunctionName
  | AddressHelper
  | CheckHelper
  | RaceHelper
  | FloatHelper
  | MemoryBarrierHelper
  | ShadowHelper;

const builders: Readonly<Record<string, HelperBuilder>> = {
  ...addressHelpers,
  ...checkHelpers,
  ...raceHelpers,
  ...floatHelpers,
  ...memoryBarrierHelpers,
  ...shadowHelpers,
};
const indices: ReadonlyMap<string, number> = new Map(
  Object.keys(builders).map((name, index) => [name, hostFunctionCount + index]),
);
let built: readonly HelperFunction[] | undefined;

/** Returns the index of a helper, which is the same in every module. */
export function helperIndex(name: Helper): number {
  return indices.get(name) ?? hostIndex(name as HostFunctionName);
}

/** The index of the WebAssembly global that contains the address of the module's image. */
export const imageAddressGlobal = 0;

/** The number of imported functions and helpers, which precede a module's own functions. */
export const helperCount: number = hostFunctionCount + indices.size;

/** Returns the helpers that are part of every module, in the order of their indices. */
export function helperFunctions(): readonly HelperFunction[] {
  return built ??= Object.values(builders).map((build) => build((name) => helperIndex(name as Helper)));
}

/** Returns the functions that every module imports, in the order of their indices. */
export function importedFunctions(): { module: string; name: string; type: HelperFunction["type"] }[] {
  return Object.entries(hostFunctionTypes).map(([name, type]) => ({ module: "device", name, type }));
}
