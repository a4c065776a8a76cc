import type { KernelLaunch, LaunchAttributes } from "../src/driver.ts";
import { addressOf } from "./native/host.ts";
import { launchAttributeId, launchAttributeLayout, launchConfigLayout } from "./structs.ts";

const config = launchConfigLayout.fields;
const attribute = launchAttributeLayout.fields;
const mostAttributes = Object.keys(launchAttributeId).length;

/** A `CUlaunchConfig` and the attributes that it points to, in one buffer. Filling it in allocates nothing. */
export class LaunchConfig {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly #view: DataView<ArrayBuffer>;

  constructor() {
    const { byteLength } = launchConfigLayout;
    this.#view = new DataView(new ArrayBuffer(byteLength + mostAttributes * launchAttributeLayout.byteLength));
    this.bytes = new Uint8Array(this.#view.buffer);
    this.#view.setBigUint64(config.attrs.offset, addressOf(this.#view) + BigInt(byteLength), true);
  }

  /** Describes a launch. The parameters are not part of it. */
  fill(launch: KernelLaunch, attributes: LaunchAttributes): void {
    const view = this.#view;
    view.setUint32(config.gridDimX.offset, launch.gridX, true);
    view.setUint32(config.gridDimY.offset, launch.gridY, true);
    view.setUint32(config.gridDimZ.offset, launch.gridZ, true);
    view.setUint32(config.blockDimX.offset, launch.blockX, true);
    view.setUint32(config.blockDimY.offset, launch.blockY, true);
    view.setUint32(config.blockDimZ.offset, launch.blockZ, true);
    view.setUint32(config.sharedMemBytes.offset, launch.sharedMemoryBytes, true);
    view.setBigUint64(config.hStream.offset, launch.stream, true);
    view.setUint32(config.numAttrs.offset, this.#fillAttributes(attributes), true);
  }

  /** Returns how many attributes there are. */
  #fillAttributes({ clusterDim, cooperative, programmaticStreamSerialization, priority }: LaunchAttributes): number {
    const view = this.#view;
    let count = 0;
    if (clusterDim !== undefined) {
      const at = this.#begin(count++, launchAttributeId.clusterDimension);
      view.setUint32(at + attribute["value.clusterDim.x"].offset, clusterDim[0], true);
      view.setUint32(at + attribute["value.clusterDim.y"].offset, clusterDim[1], true);
      view.setUint32(at + attribute["value.clusterDim.z"].offset, clusterDim[2], true);
    }
    if (cooperative) {
      const at = this.#begin(count++, launchAttributeId.cooperative);
      view.setInt32(at + attribute["value.cooperative"].offset, 1, true);
    }
    if (programmaticStreamSerialization) {
      const at = this.#begin(count++, launchAttributeId.programmaticStreamSerialization);
      view.setInt32(at + attribute["value.programmaticStreamSerializationAllowed"].offset, 1, true);
    }
    if (priority !== undefined) {
      const at = this.#begin(count++, launchAttributeId.priority);
      view.setInt32(at + attribute["value.priority"].offset, priority, true);
    }
    return count;
  }

  /** Writes the id of the attribute with an index, clears its value, and returns its offset. */
  #begin(index: number, id: number): number {
    const at = launchConfigLayout.byteLength + index * launchAttributeLayout.byteLength;
    this.bytes.fill(0, at, at + launchAttributeLayout.byteLength);
    this.#view.setInt32(at + attribute.id.offset, id, true);
    return at;
  }
}
