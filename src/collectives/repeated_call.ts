/**
 * A call that is made again.
 *
 * @module
 */
import type { DeviceBuffer } from "../memory/device_buffer.ts";
import type { CollectiveOptions, CommunicationType, Reduction } from "./collective_arguments.ts";
import type { Collective } from "./collective_group.ts";

/** What a collective was called with. */
interface Arguments {
  readonly source: DeviceBuffer;
  readonly target: DeviceBuffer;
  readonly reduction: Reduction;
  readonly options: CollectiveOptions;
}

/**
 * A collective that was checked. Programs call the same one again and again. What its checks touch is not in the
 * processor's cache any more when the last one was given to its stream, and takes a tenth of a small all-reduce.
 */
export class RepeatedCall {
  readonly collective: Collective;
  readonly #arguments: Arguments;
  readonly #type: CommunicationType | undefined;

  constructor(collective: Collective, args: Arguments) {
    this.collective = collective;
    this.#arguments = args;
    this.#type = args.options.type;
  }

  /** Whether the call is the same, and as right as it was. */
  isFor(source: DeviceBuffer, target: DeviceBuffer, reduction: Reduction, options: CollectiveOptions): boolean {
    const same = this.#arguments;
    if (source !== same.source || target !== same.target) return false;
    if (reduction !== same.reduction || options !== same.options) return false;
    const { stream, used } = this.collective;
    // Programs may change what the objects have.
    return options.type === this.#type && (options.stream ?? source.stream) === stream && !stream.disposed &&
      used.source?.isFreed === false && used.target?.isFreed === false;
  }
}
