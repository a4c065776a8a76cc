/**
 * The settings of NCCL's communicators.
 *
 * @module
 */
import { handleOutBytes } from "./nccl_communicator.ts";

/** `ncclConfig_t` as it was in NCCL 2.18: newer ones read what it has. */
const configVersion = 2_18_00;
const configByteLength = 48;
const configMagic = 0xcafebeef;
/** `NCCL_CONFIG_UNDEF_INT`. */
const undefinedInt = -(2 ** 31);

/** An `ncclConfig_t`. One that is not blocking makes no collectives: a single channel takes the least memory. */
export function configOf({ isBlocking }: { readonly isBlocking: boolean }): Uint8Array {
  const config = new Uint8Array(handleOutBytes);
  const view = new DataView(config.buffer);
  const channels = isBlocking ? undefinedInt : 1;
  view.setBigUint64(0, BigInt(configByteLength), true);
  view.setUint32(8, configMagic, true);
  view.setUint32(12, configVersion, true);
  view.setInt32(16, isBlocking ? 1 : 0, true);
  view.setInt32(20, undefinedInt, true); // cgaClusterSize
  view.setInt32(24, channels, true); // minCTAs
  view.setInt32(28, channels, true); // maxCTAs
  view.setInt32(40, undefinedInt, true); // splitShare
  return config;
}
