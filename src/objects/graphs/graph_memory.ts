import { graphMemAttribute } from "../../driver.ts";
import type { PoolUsage } from "../../memory/pools/pool_attributes.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";

/**
 * What a device keeps for the allocations of graphs. Other processes cannot map it. Comes from `CudaDevice.graphMemory`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__GRAPH.html
 */
export interface GraphMemory {
  /**
   * Returns how many bytes graphs have reserved and use, and the maximum of each.
   *
   * @throws {CudaError} If the device is lost
   */
  usage(): PoolUsage;
  /** Makes the maxima start again from the current values. */
  resetHigh(): void;
  /** Returns memory that graphs have reserved and do not use to the system: `cudaDeviceGraphMemTrim`. */
  trim(): void;
}

/** Returns the memory that a device keeps for graphs. */
export function graphMemoryOf(session: Session, device: number): GraphMemory {
  const { usedCurrent, usedHigh, reservedCurrent, reservedHigh } = graphMemAttribute;
  const attempt = <Result>(what: string, call: () => Result): Result => {
    try {
      return call();
    } catch (error) {
      throw cannot(`${what} of device ${device}`, error);
    }
  };
  const read = (attribute: number) => Number(session.driver.deviceGetGraphMemAttribute(device, attribute));
  return {
    usage: () =>
      attempt("get the usage of the graphs' memory", () => ({
        reserved: read(reservedCurrent),
        reservedHigh: read(reservedHigh),
        used: read(usedCurrent),
        usedHigh: read(usedHigh),
      })),
    resetHigh: () =>
      attempt("reset the maximum usage of the graphs' memory", () => {
        for (const attribute of [usedHigh, reservedHigh]) {
          session.driver.deviceSetGraphMemAttribute(device, attribute, 0n);
        }
      }),
    trim: () => attempt("trim the graphs' memory", () => session.driver.deviceGraphMemTrim(device)),
  };
}
