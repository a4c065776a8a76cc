/**
 * The groups of lanes of a warp that request the same operation.
 *
 * @module
 */
import { exited, type Suspension, type SuspensionRequest, threadRecord } from "../../abi/launch_record.ts";
import type { BlockRecords } from "./block_records.ts";
import { warpSize } from "./warp_records.ts";

/** Lanes that request an operation. */
export interface WarpGroup {
  /** A bit for each of them. */
  readonly group: number;
  readonly request: SuspensionRequest;
}

/** Lanes that request the active mask, and the first of them. */
export interface ActiveGroup extends WarpGroup {
  readonly lane: number;
}

/** The requests of the lanes of a warp. */
export interface WarpRequests {
  /** Groups whose lanes have all arrived. */
  readonly complete: readonly WarpGroup[];
  /** The first group that requests the active mask, which is always complete. */
  readonly active: ActiveGroup | undefined;
  /** Whether lanes wait at lockstep points. */
  readonly atLockstepPoints: boolean;
}

/** Finds the groups of the warps of a block. */
export class WarpGroups {
  readonly #records: BlockRecords;
  readonly #suspensions: readonly Suspension[];
  /** Suspensions with equal requests of the warp have the same number. */
  readonly #operations: readonly number[];

  constructor(records: BlockRecords, suspensions: readonly Suspension[]) {
    this.#records = records;
    this.#suspensions = suspensions;
    const keys = suspensions.map(({ request }) => JSON.stringify(request));
    this.#operations = keys.map((key) => keys.indexOf(key));
  }

  of(warp: number): WarpRequests {
    const records = this.#records;
    const first = warp * warpSize;
    const lanes = records.lanesOf(warp);
    let present = 0;
    let atLockstepPoints = false;
    for (let lane = 0; lane < lanes; lane++) {
      const request = records.requestOf(first + lane);
      if (request !== exited) present |= 1 << lane;
      if (request > 0 && this.#suspensions[request - 1]!.request.kind === "lockstep") atLockstepPoints = true;
    }
    let grouped = 0;
    const complete: WarpGroup[] = [];
    let active: ActiveGroup | undefined;
    for (let lane = 0; lane < lanes; lane++) {
      if ((grouped >>> lane & 1) === 1) continue;
      const operation = this.#operationOf(first + lane);
      if (operation < 0) continue;
      const { request } = this.#suspensions[operation]!;
      const isActiveMask = request.kind === "activeMask";
      const place = records.requestOf(first + lane);
      // A lane that is not in its own mask does not wait, as on a GPU.
      const named = isActiveMask ? present : records.get(first + lane, threadRecord.mask);
      const mask = (named >>> lane & 1) === 1 ? named : 1 << lane;
      let group = 0;
      for (let other = lane; other < lanes; other++) {
        const isSame = isActiveMask
          ? records.requestOf(first + other) === place
          : this.#operationOf(first + other) === operation && records.get(first + other, threadRecord.mask) === named;
        if (isSame && (mask >>> other & 1) === 1) group |= 1 << other;
      }
      grouped |= group;
      if (isActiveMask) active ??= { group, request, lane };
      else if ((mask & present & ~group) === 0) complete.push({ group, request });
    }
    return { complete, active, atLockstepPoints };
  }

  /** The number of the warp operation that a thread requests. Negative if it requests none. */
  #operationOf(thread: number): number {
    const request = this.#records.requestOf(thread);
    if (request <= 0) return -1;
    const asked = this.#suspensions[request - 1]!.request;
    return asked.kind !== "lockstep" && isOfWarp(asked) ? this.#operations[request - 1]! : -1;
  }
}

/** Whether a request is answered for lanes of a warp together. */
export function isOfWarp({ kind }: SuspensionRequest): boolean {
  return kind !== "barrier" && kind !== "yield";
}
