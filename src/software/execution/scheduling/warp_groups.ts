/**
 * The groups of lanes of a warp that ask for the same operation together, and which lanes continue when lanes wait for each
 * other at lockstep points.
 *
 * Lanes at the same place continue together. If lanes wait at several places, those whose place comes first in the program
 * continue, so that lanes that diverged reconverge behind it. In a loop where a lane may wait for what another one stores,
 * they take turns.
 *
 * @module
 */
import { exited, type Suspension, type SuspensionRequest, threadRecord } from "../../abi/launch_record.ts";
import { type BlockRecords, comparePositions, type Position } from "./block_records.ts";
import { warpSize } from "./warp_operations.ts";

/** Lanes that request an operation. */
interface WarpGroup {
  /** A bit for each of them. */
  readonly group: number;
  readonly request: SuspensionRequest;
}

/** Lanes that request the active mask, and the first of them. */
export interface ActiveGroup extends WarpGroup {
  readonly lane: number;
}

/** The requests of the lanes of a warp. */
interface WarpRequests {
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

/**
 * How often the lanes at the first place may resume while others wait. In a loop that may wait for the others, the
 * limit is halved each time, because a lock is taken many times.
 */
const mostTurns = { spinning: { first: 256, least: 4 }, other: 2 ** 14 } as const;
/** How often lanes that yielded may yield again before the others resume without them. */
const mostYields = 4;
/** How often a warp resumes before other warps run. */
const turnsOfWarp = 64;

/** The places where the lanes of a warp wait. */
interface WaitingLanes {
  requestOf(lane: number): number;
  positionOf(lane: number): Position;
  readonly lanes: number;
  /** A bit for each lane that resumes after a yield. */
  readonly yielded: number;
  /** A lane that requests the active mask, if there is one. */
  readonly active: number | undefined;
}

/** The turns of the lanes of a block's warps. */
export class LockstepTurns {
  readonly #suspensions: readonly Suspension[];
  /**
   * For each warp, how often the first lanes have resumed in a row, how often they may in a spin loop, and how often
   * lanes have yielded meanwhile.
   */
  readonly #turns: Int32Array;
  readonly #spinning: Int32Array;
  readonly #yields: Int32Array;
  readonly #goings: Int32Array;
  /** For each thread, when it last resumed. */
  readonly #last: Float64Array;
  #now = 0;

  constructor(suspensions: readonly Suspension[], { warps, threads }: { warps: number; threads: number }) {
    this.#suspensions = suspensions;
    this.#turns = new Int32Array(warps);
    this.#spinning = new Int32Array(warps).fill(mostTurns.spinning.first);
    this.#yields = new Int32Array(warps);
    this.#goings = new Int32Array(warps);
    this.#last = new Float64Array(threads);
  }

  /** Starts the next block. */
  restart(): void {
    this.#turns.fill(0);
    this.#yields.fill(0);
  }

  /** Counts a resumption of a warp. Returns whether the warp runs at once; if not, other warps run first. */
  resume(warp: number): boolean {
    return ++this.#goings[warp]! % turnsOfWarp !== 0;
  }

  /** The lanes to resume, as bits: none while other lanes can still run; or the lanes that request the active mask. */
  next(warp: number, { requestOf, positionOf, lanes, yielded, active }: WaitingLanes): number | "active" {
    let runs = 0;
    for (let lane = 0; lane < lanes; lane++) if (requestOf(lane) === 0) runs |= 1 << lane;
    if ((runs & ~yielded) !== 0) return 0;
    if (runs !== 0 && this.#yields[warp]! < mostYields) {
      this.#yields[warp]!++;
      return 0;
    }
    this.#yields[warp] = 0;
    const waiting: { lane: number; position: Position }[] = [];
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
    // The lanes that have waited longest.
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
