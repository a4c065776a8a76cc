/**
 * The check `synchronization`: finds barriers and warp-level operations with undefined or unintended behavior, and
 * threads that have skipped a barrier at which other lanes of their warp wait.
 *
 * @module
 */
import type { ThreadAccess } from "../../../kernel_checker.ts";
import type { LineInfo } from "../../../ptx/line_info.ts";
import { faultKind } from "../../abi/addresses.ts";
import { barrierMarks, decodeProductMark, type ProductMistake, type Suspension } from "../../abi/launch_record.ts";
import { describeStuck, type KernelFault, nameLines, type StuckBlocks } from "../faults/kernel_fault.ts";
import type { LaunchGeometry } from "../modules/kernel_versions.ts";
import type { BlockObserver, ObservedArrival, ObservedBarrier, ObservedMeeting } from "../scheduling/block_records.ts";
import type { WaitingThreads } from "../scheduling/block_barriers.ts";
import type { Findings } from "./findings.ts";

/** A launch whose barriers are checked. */
interface SynchronizingLaunch {
  readonly geometry: LaunchGeometry;
  /** Returns the index of the running block. An empty report is sufficient, because no thread has to be identified. */
  indicesOf(report: Record<never, never>): Pick<ThreadAccess, "block">;
}

/** The maximum number of suspend points that the report of a deadlock lists. */
const mostPlaces = 4;

/** The check `synchronization` of one launch. */
export class SynchronizationCheck {
  readonly #launch: SynchronizingLaunch;
  readonly #lineInfo: LineInfo;
  readonly #findings: Findings;
  /** The running block's counts of skipped barriers. */
  #skipped: SkippedBarriers | undefined;

  constructor(launch: SynchronizingLaunch, lineInfo: LineInfo, findings: Findings) {
    this.#launch = launch;
    this.#lineInfo = lineInfo;
    this.#findings = findings;
  }

  /** Returns an observer of blocks whose threads may wait for each other. */
  observeBlock(): BlockObserver {
    const { geometry: { block: [x, y, z] } } = this.#launch;
    const skipped = new SkippedBarriers(x * y * z);
    // For each barrier, the first arrival since the barrier last completed.
    const arrivals = new Map<number, { readonly thread: number; readonly arrival: ObservedArrival }>();
    return {
      start: () => {
        arrivals.clear();
        skipped.start();
        this.#skipped = skipped;
      },
      resume: () => {
        this.#skipped = skipped;
      },
      arrive: (thread, arrival) => {
        const first = arrivals.get(arrival.barrier);
        if (first === undefined) arrivals.set(arrival.barrier, { thread, arrival });
        else this.#compare({ thread, arrival }, first);
      },
      complete: (barrier) => {
        arrivals.delete(barrier.barrier);
        if (!barrier.isOfWholeWarps) this.#checkWarps(barrier);
        if (!skipped.isEmpty) this.#checkSkipped(barrier, skipped);
      },
      meet: (warp, meeting) => this.#checkMasks(warp, meeting),
    };
  }

  /** Compares an arrival at a barrier with the first arrival since the barrier last completed. */
  #compare(later: Arrived, first: Arrived): void {
    const { arrival: { barrier, count, suspension } } = later;
    const { arrival } = first;
    const places = [later, first].map(({ thread, arrival }) => this.#accessOf(thread, arrival.suspension));
    if (count !== arrival.count) {
      this.#findings.add(`barrier-count ${suspension.line} ${arrival.suspension.line}`, () => ({
        check: "synchronization",
        kind: "barrier-count",
        problem: `threads meet at barrier ${barrier} that expect different numbers of threads there: ` +
          `${numberOf(count)}, and ${numberOf(arrival.count)}`,
        advice: "Name the same number of threads wherever threads use the barrier, or use another barrier",
        accesses: places,
      }));
    }
    const operations = [suspension, arrival.suspension].map(({ request }) => {
      return request.kind === "barrier" ? request.operation : "sync";
    });
    const isMixed = operations.includes("arrive") && operations.some((name) => name !== "arrive" && name !== "sync");
    if (!isMixed) return;
    this.#findings.add(`mixed-barrier ${suspension.line} ${arrival.suspension.line}`, () => ({
      check: "synchronization",
      kind: "mixed-barrier",
      problem:
        `some threads only arrive at barrier ${barrier}, and others reduce a predicate there: a GPU stops the kernel`,
      advice: "Let all threads reduce the predicate, or use another barrier for it",
      accesses: places,
    }));
  }

  /** Checks, for an aligned barrier, that all waiting lanes of a warp wait at the same instruction. */
  #checkWarps(barrier: ObservedBarrier): void {
    const threads = barrier.threads();
    const first = new Map<number, number>();
    for (const thread of threads) {
      const suspension = barrier.suspensionOf(thread);
      if (suspension?.request.kind !== "barrier") continue;
      const other = first.get(thread >> 5);
      if (other === undefined) {
        first.set(thread >> 5, thread);
        continue;
      }
      const otherSuspension = barrier.suspensionOf(other)!;
      const isAligned = [suspension, otherSuspension].some(({ request }) => {
        return request.kind === "barrier" && request.isAligned;
      });
      if (suspension !== otherSuspension && isAligned) this.#addDivergent(thread, suspension, other, otherSuspension);
    }
    this.#checkAbsent(barrier, first, new Set(threads));
  }

  /** Checks that every lane of the warps at an aligned barrier either waits there or has exited. */
  #checkAbsent(barrier: ObservedBarrier, first: ReadonlyMap<number, number>, threads: ReadonlySet<number>): void {
    if (barrier.isOfAll) return;
    for (const [warp, thread] of first) {
      const suspension = barrier.suspensionOf(thread)!;
      if (suspension.request.kind !== "barrier" || !suspension.request.isAligned) continue;
      for (let other = warp * 32; other < warp * 32 + 32; other++) {
        if (threads.has(other) || barrier.hasExited(other)) continue;
        this.#addDivergent(other, barrier.suspensionOf(other), thread, suspension);
        break;
      }
    }
  }

  /** Reports each lane that has skipped the completed barrier while another lane of its warp waited at the barrier. */
  #checkSkipped(barrier: ObservedBarrier, skipped: SkippedBarriers): void {
    for (const { waiting, skipping } of skipped.atBarrier(barrier.threads(), (other) => barrier.hasExited(other))) {
      const suspension = barrier.suspensionOf(waiting);
      if (suspension === undefined) continue;
      this.#findings.add(`divergent-barrier ${suspension.line} skipped`, () => ({
        check: "synchronization",
        kind: "divergent-barrier",
        problem: `${nameOf(barrier, suspension)} at ${this.#sourceOf(suspension)} is reached by ` +
          `${this.#nameOf(waiting)}, but ${this.#nameOf(skipping)} has gone on without it: every thread of the block ` +
          "must reach it, and as often as the others",
        advice: adviceForCondition,
        accesses: [this.#accessOf(waiting, suspension)],
      }));
    }
  }

  /** Records an event of a thread of the running block: see the host function `mark`. */
  mark(mark: number, thread: number): void {
    if (mark < 0) this.#addProductMistake(decodeProductMark(mark), thread);
    else this.#skipped?.mark(mark, thread);
  }

  #addProductMistake({ line, mistake }: { line: number; mistake: ProductMistake }, thread: number): void {
    const access: ThreadAccess = {
      access: mistake === "overwrite" ? "write" : "read",
      source: this.#lineOf(line),
      block: this.#launch.indicesOf({}).block,
      thread: this.#indexOf(thread),
    };
    const wording = productWordings[mistake];
    this.#findings.add(`${wording.kind} ${line}`, () => ({ check: "synchronization", ...wording, accesses: [access] }));
  }

  #nameOf(thread: number): string {
    return `thread (${this.#indexOf(thread)})`;
  }

  #indexOf(thread: number): [number, number, number] {
    const { geometry: { block: [x, y] } } = this.#launch;
    return [thread % x, Math.floor(thread / x) % y, Math.floor(thread / (x * y))];
  }

  #addDivergent(a: number, atA: Suspension | undefined, b: number, atB: Suspension): void {
    this.#findings.add(`divergent-barrier ${[atA?.line ?? 0, atB.line].sort((a, b) => a - b)}`, () => ({
      check: "synchronization",
      kind: "divergent-barrier",
      problem: "threads of one warp are at different places when a barrier is complete that all of them must reach " +
        "together: on a GPU, they may wait forever, or go on too early",
      advice: adviceForCondition,
      accesses: [...atA === undefined ? [] : [this.#accessOf(a, atA)], this.#accessOf(b, atB)],
    }));
  }

  /** Checks that the mask of each participating lane includes the lane itself. */
  #checkMasks(warp: number, { lanes, suspension, maskOf }: ObservedMeeting): void {
    const { request: { kind }, line } = suspension;
    if (kind === "activeMask") return;
    for (let rest = lanes; rest !== 0; rest &= rest - 1) {
      const lane = 31 - Math.clz32(rest & -rest);
      const mask = maskOf(lane);
      if ((mask >>> lane & 1) === 1) continue;
      this.#findings.add(`wrong-mask ${line}`, () => ({
        check: "synchronization",
        kind: "wrong-mask",
        problem:
          `lane ${lane} of a warp takes part with the mask 0x${(mask >>> 0).toString(16)}, which does not name it: ` +
          "the result is undefined",
        advice: "Give the mask of the lanes that get there: __ballot_sync before the branch",
        accesses: [this.#accessOf(warp * 32 + lane, suspension)],
      }));
      return;
    }
  }

  /** Reports the fault that stopped the kernel if it is a deadlock. */
  fault({ kind, what }: KernelFault, waiting: readonly WaitingThreads[], stuck: StuckBlocks | undefined): void {
    if (kind !== faultKind.deadlock && stuck === undefined) return;
    const nameLine = (line: number) => this.#lineOf(line);
    this.#findings.add("deadlock", () => ({
      check: "synchronization",
      kind: "deadlock",
      problem: stuck === undefined ? what : nameLines(describeStuck(stuck.blocks), nameLine),
      advice: stuck?.advice ?? adviceOf(waiting),
      accesses: waiting.slice(0, mostPlaces).map(({ first, suspension }) => this.#accessOf(first, suspension)),
    }));
  }

  #sourceOf({ line }: Suspension): string {
    return this.#lineOf(line);
  }

  #lineOf(line: number): string {
    return this.#lineInfo.sourceOf(line) ?? `PTX line ${line}`;
  }

  #accessOf(thread: number, suspension: Suspension): ThreadAccess {
    return {
      access: "barrier",
      source: this.#sourceOf(suspension),
      block: this.#launch.indicesOf({}).block,
      thread: this.#indexOf(thread),
    };
  }
}

/** A thread and its arrival at a barrier. */
interface Arrived {
  readonly thread: number;
  readonly arrival: ObservedArrival;
}

const adviceToAwait = "Commit the product by wgmma.commit_group, and await it by wgmma.wait_group";

/** What is said of each mistake with the registers of a product. */
const productWordings = {
  use: {
    kind: "unfinished-product",
    problem: "a thread uses registers of a product of matrices that wgmma may still compute",
    advice: adviceToAwait,
  },
  overwrite: {
    kind: "unfinished-product",
    problem: "a thread writes registers of a product of matrices that wgmma may still compute or read",
    advice: `${adviceToAwait}, before its registers are written`,
  },
  fence: {
    kind: "missing-product-fence",
    problem:
      "a product of matrices begins without wgmma.fence since its registers were written: wgmma may read them, " +
      "or accumulate in them, before the write",
    advice:
      "Put wgmma.fence (cutlass::warpgroup_arrive) between the last write of the registers and the product, and " +
      "before the first product",
  },
} as const satisfies Record<ProductMistake, { kind: string; problem: string; advice: string }>;

const adviceForCondition =
  "Move it out of the condition or the loop, to where every thread of the block reaches it; leave it out only if " +
  "nothing behind it reads what other threads wrote";

/** Returns the name of a barrier for a message: its name in CUDA C++, if there is one. */
function nameOf({ barrier }: ObservedBarrier, { request }: Suspension): string {
  return barrier === 0 && request.kind === "barrier" && request.operation === "sync"
    ? "__syncthreads()"
    : "the barrier";
}

function numberOf(count: number): string {
  return count === 0 ? "all of the block" : `${count}`;
}

function adviceOf(waiting: readonly WaitingThreads[]): string {
  const kinds = new Set(waiting.map(({ suspension: { request: { kind } } }) => kind));
  if (!kinds.has("barrier")) {
    return "Let all lanes that a mask names execute the same instruction with the same mask";
  }
  return kinds.size === 1
    ? "Let as many threads arrive at each barrier as it counts: threads that have exited do not"
    : "Let all threads of the block reach the same barrier, and all lanes that a mask names the same instruction";
}

/** The state of one barrier in the kernel's code, for all threads of a block. */
interface Passes {
  /**
   * For each thread, 1 if it has executed a branch that may skip the barrier and has not yet reached the barrier or the
   * point where the paths of the branch reconverge; otherwise 0.
   */
  readonly isNear: Uint8Array;
  /**
   * For each thread, the number of times that it has skipped the barrier since lanes of its warp last completed the
   * barrier.
   */
  readonly counts: Uint32Array;
}

/** Two threads of one warp: one has waited at a barrier that the other has skipped. */
interface SkippedBarrier {
  readonly waiting: number;
  readonly skipping: number;
}

/** Counts the times that each thread of a block skips each barrier. */
class SkippedBarriers {
  readonly #threads: number;
  /** Maps the number by which barrier events identify a barrier to the state of the barrier. */
  readonly #passes = new Map<number, Passes>();
  /** For each thread, the number of the last barrier that it reached; -1 if it has reached none. */
  readonly #last: Int32Array;

  /** @param threads the number of threads of a block */
  constructor(threads: number) {
    this.#threads = threads;
    this.#last = new Int32Array(threads).fill(-1);
  }

  /** Whether no thread of the block has reported a barrier event yet. */
  get isEmpty(): boolean {
    return this.#passes.size === 0;
  }

  /** Clears the state of the previous block. */
  start(): void {
    this.#passes.clear();
    this.#last.fill(-1);
  }

  /** Records a barrier event (see `barrierMarks`) of a thread. */
  mark(mark: number, thread: number): void {
    const barrier = Math.floor(mark / barrierMarks.count);
    const { isNear, counts } = this.#passesOf(barrier);
    switch (mark % barrierMarks.count) {
      case barrierMarks.branch:
        isNear[thread] = 1;
        break;
      case barrierMarks.meeting:
        counts[thread]! += isNear[thread]!;
        isNear[thread] = 0;
        break;
      case barrierMarks.barrier:
        isNear[thread] = 0;
        this.#last[thread] = barrier;
    }
  }

  /**
   * Given the threads that waited at a completed barrier, returns a waiting lane and a lane that has skipped the
   * barrier, for each warp that has both.
   */
  atBarrier(threads: readonly number[], hasExited: (thread: number) => boolean): SkippedBarrier[] {
    const found: SkippedBarrier[] = [];
    const waiting = new Set(threads);
    const seen = new Set<number>();
    for (const thread of threads) {
      const warp = thread >> 5, barrier = this.#last[thread]!;
      if (seen.has(warp) || barrier < 0) continue;
      seen.add(warp);
      const { counts } = this.#passesOf(barrier);
      const end = Math.min(warp * 32 + 32, this.#threads);
      let skipping = -1, passed = thread;
      for (let other = warp * 32; other < end; other++) {
        const count = counts[other]!;
        if (waiting.has(other) && this.#last[other] === barrier) {
          // If the counts of two waiting lanes differ, the lane with the higher count skipped this barrier earlier,
          // while the other lane waited at it.
          if (count > counts[passed]!) skipping = skipping < 0 ? other : skipping;
          else if (count < counts[passed]!) {
            skipping = skipping < 0 ? passed : skipping;
            passed = other;
          }
        } else if (skipping < 0 && hasExited(other) && count > counts[passed]!) {
          skipping = other;
        }
      }
      if (skipping >= 0) found.push({ waiting: passed, skipping });
      counts.fill(0, warp * 32, end);
    }
    return found;
  }

  #passesOf(barrier: number): Passes {
    let passes = this.#passes.get(barrier);
    if (passes === undefined) {
      passes = { isNear: new Uint8Array(this.#threads), counts: new Uint32Array(this.#threads) };
      this.#passes.set(barrier, passes);
    }
    return passes;
  }
}
