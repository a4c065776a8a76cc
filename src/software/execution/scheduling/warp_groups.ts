/**
 * The groups of a warp's lanes that request the same operation together, and the choice of the lanes that resume when
 * lanes wait for each other at lockstep points.
 *
 * Lanes at the same suspend point resume together. If lanes wait at several suspend points, those at the first one in
 * program order resume, so that diverged lanes reconverge after it. In a loop where a lane may wait for a store of
 * another lane, the groups take turns.
 *
 * @module
 */
import { exited, type Suspension, type SuspensionRequest, threadRecord, warpSize } from "../../abi/launch_record.ts";
import { type BlockRecords, comparePositions, type ResumePosition } from "./block_records.ts";

/** Lanes of a warp that request the same operation and wait for each other. */
interface WarpGroup {
  /** The mask of the lanes in the group. */
  readonly group: number;
  readonly request: SuspensionRequest;
}

/** Lanes of a warp that request the active mask at the same instruction. */
export interface ActiveGroup extends WarpGroup {
  /** The first lane of the group. */
  readonly lane: number;
}

/** The groups of lanes that a warp's requests form. */
interface WarpRequests {
  /** The groups in which all lanes have arrived. */
  readonly complete: readonly WarpGroup[];
  /** The first group that requests the active mask. Such a group is always complete. Undefined if there is none. */
  readonly active: ActiveGroup | undefined;
  /** Whether lanes wait at lockstep points. */
  readonly atLockstepPoints: boolean;
}

/** Groups the lanes of each warp of a block by the operation that they request. */
export class WarpGroups {
  readonly #records: BlockRecords;
  readonly #suspensions: readonly Suspension[];
  /** For each suspension, the number of its operation. Suspensions have the same number if their requests are equal. */
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
      // As on a GPU, a lane whose mask does not include the lane itself does not wait for other lanes.
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

  /** Returns the number of the operation that a thread requests from its warp, or -1 if it requests none. */
  #operationOf(thread: number): number {
    const request = this.#records.requestOf(thread);
    if (request <= 0) return -1;
    const asked = this.#suspensions[request - 1]!.request;
    return asked.kind !== "lockstep" && isOfWarp(asked) ? this.#operations[request - 1]! : -1;
  }
}

/** Returns whether the request is for an operation in which lanes of a warp participate together. */
export function isOfWarp({ kind }: SuspensionRequest): boolean {
  return kind !== "barrier" && kind !== "yield" && kind !== "clusterBarrier";
}

/**
 * The maximum number of times in a row that the lanes at the lowest suspend point resume while other lanes of the warp
 * wait. In a spin loop, the limit starts at `first` and is halved each time it is reached, down to `least`: a program
 * that acquires a lock usually does so many times, so later waits should be shorter.
 */
const mostTurns = { spinning: { first: 256, least: 4 }, other: 2 ** 14 } as const;
/**
 * The maximum number of times in a row that lanes of a warp may yield before the lanes at lockstep points resume
 * without them.
 */
const mostYields = 4;
/** The maximum number of times in a row that a warp resumes from lockstep points before other warps run. */
const turnsOfWarp = 64;

/** The state of a warp's lanes, some of which wait at lockstep points. */
interface WaitingLanes {
  requestOf(lane: number): number;
  positionOf(lane: number): ResumePosition;
  readonly lanes: number;
  /** The mask of the runnable lanes whose last request was a yield. */
  readonly yielded: number;
  /** A lane that requests the active mask. Undefined if there is none. */
  readonly active: number | undefined;
}

/** Chooses the lanes that resume at lockstep points, for all warps of a block. */
export class LockstepTurns {
  readonly #suspensions: readonly Suspension[];
  /** For each warp, the number of times in a row that the lanes at the lowest suspend point have resumed. */
  readonly #turns: Int32Array;
  /** For each warp, the current limit of `#turns` in spin loops. */
  readonly #spinning: Int32Array;
  /** For each warp, the number of times in a row that its lanes have yielded. */
  readonly #yields: Int32Array;
  /** For each warp, the number of times that any of its lanes have resumed from a lockstep point. */
  readonly #goings: Int32Array;
  /** For each thread, the value of `#now` when the thread last resumed. */
  readonly #last: Float64Array;
  /** The number of times that lanes to resume have been chosen. Serves as the current time for `#last`. */
  #now = 0;

  constructor(suspensions: readonly Suspension[], { warps, threads }: { warps: number; threads: number }) {
    this.#suspensions = suspensions;
    this.#turns = new Int32Array(warps);
    this.#spinning = new Int32Array(warps).fill(mostTurns.spinning.first);
    this.#yields = new Int32Array(warps);
    this.#goings = new Int32Array(warps);
    this.#last = new Float64Array(threads);
  }

  /** Resets the state of all warps for the next block. */
  restart(): void {
    this.#turns.fill(0);
    this.#yields.fill(0);
  }

  /**
   * Counts a resumption of a warp's lanes. Returns whether the warp may run again immediately, rather than after other
   * warps.
   */
  resume(warp: number): boolean {
    return ++this.#goings[warp]! % turnsOfWarp !== 0;
  }

  /**
   * Returns the mask of the lanes to resume from a lockstep point. Returns "active" if lanes that request the active
   * mask precede those lanes in the program. Returns 0 while other lanes of the warp can still run.
   */
  next(warp: number, { requestOf, positionOf, lanes, yielded, active }: WaitingLanes): number | "active" {
    let runs = 0;
    for (let lane = 0; lane < lanes; lane++) if (requestOf(lane) === 0) runs |= 1 << lane;
    if ((runs & ~yielded) !== 0) return 0;
    if (runs !== 0 && this.#yields[warp]! < mostYields) {
      this.#yields[warp]!++;
      return 0;
    }
    this.#yields[warp] = 0;
    const waiting: { lane: number; position: ResumePosition }[] = [];
    for (let lane = 0; lane < lanes; lane++) {
      const request = requestOf(lane);
      if (request <= 0 || this.#suspensions[request - 1]!.request.kind !== "lockstep") continue;
      waiting.push({ lane, position: positionOf(lane) });
    }
    let chosen = waiting[0]!;
    for (const other of waiting) if (comparePositions(other.position, chosen.position) < 0) chosen = other;
    const { request } = this.#suspensions[requestOf(chosen.lane) - 1]!;
    const spins = request.kind === "lockstep" && request.spins;
    const isOver = this.#turns[warp]! >= (spins ? this.#spinning[warp]! : mostTurns.other);
    if (isOver && spins) this.#spinning[warp] = Math.max(mostTurns.spinning.least, this.#spinning[warp]! >> 1);
    const isAlone = active === undefined &&
      waiting.every(({ position }) => comparePositions(position, chosen.position) === 0);
    this.#turns[warp] = isOver || isAlone ? 0 : this.#turns[warp]! + 1;
    this.#now++;
    if (active !== undefined) {
      const isFirst = comparePositions(positionOf(active), chosen.position) < 0;
      if (isOver ? this.#now % 2 === 0 : isFirst) return "active";
    }
    const first = warp * 32;
    // When the limit is reached, chooses the lanes that resumed least recently.
    if (isOver) {
      for (const other of waiting) {
        if (this.#last[first + other.lane]! < this.#last[first + chosen.lane]!) chosen = other;
      }
    }
    let group = 0;
    for (const { lane, position } of waiting) {
      if (comparePositions(position, chosen.position) !== 0) continue;
      group |= 1 << lane;
      this.#last[first + lane] = this.#now;
    }
    return group;
  }
}
