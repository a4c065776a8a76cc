/**
 * Decides which lanes of a warp resume when lanes wait for each other at lockstep points.
 *
 * Lanes at the same place resume together. If lanes wait at several places, those at the first place in program order
 * resume, so that diverged lanes reconverge. In a loop in which a lane may wait for a store of another lane, they take
 * turns.
 *
 * @module
 */
import type { Suspension } from "../../abi/launch_record.ts";
import { comparePositions, type Position } from "./thread_positions.ts";

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
export interface WaitingLanes {
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
