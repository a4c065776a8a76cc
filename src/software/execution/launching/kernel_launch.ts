/**
 * Kernel launches as work of a stream, run in time slices, with or without checks.
 *
 * @module
 */
import type { CompiledKernel } from "../../compiler/compile.ts";
import { type BlockRunner, blockRunner } from "./block_runner.ts";
import { BlockIndex, ClusterIndex, type LaunchPlace, LaunchRecord } from "./launch_state.ts";
import type { GangFunctions, LaunchGeometry } from "../modules/kernel_versions.ts";
import type { SoftwareKernel } from "../modules/module_loader.ts";
import { type FaultReport, type KernelFault, KernelStop } from "../faults/kernel_fault.ts";
import { kernelFault } from "../faults/launch_fault.ts";
import { Pace, sliceMilliseconds } from "./pace.ts";
import { ResidentBlocks } from "../residency/resident_blocks.ts";
import type { LaunchAccess, LaunchObservation } from "../../../kernel_checker.ts";
import type { LaunchChecks, RunningChecks } from "../checks/launch_checks.ts";
import { maySpin } from "../scheduling/block_scheduler.ts";
import type { Delegated, WorkOptions } from "../streams.ts";
import type { Job } from "../workers/job_board.ts";
import { type LaunchSharing, SharedLaunch } from "../workers/shared_launch.ts";
import { sharingPolicy } from "../workers/workers.ts";

/** Returns the size in bytes of the memory for the local memory and saved registers of all threads of a block. */
export function threadMemoryBytes(
  { suspensions, localBytes, savedBytes, productBytes }: CompiledKernel,
  threadsPerBlock: number,
): number {
  return suspensions === undefined ? localBytes : threadsPerBlock * (localBytes + savedBytes) + productBytes;
}

/** A launch, as an item of work that a stream runs. */
export interface LaunchWork {
  /** Runs a time slice of the launch. Returns whether all blocks are done, or the blocks that other threads now run. */
  readonly run: () => boolean | Delegated;
  /** Releases the launch's memory. `run` must not be called afterwards. */
  readonly release?: () => void;
  /** See `WorkOptions`. */
  readonly delegate?: WorkOptions["delegate"];
  /** See `WorkOptions`. */
  readonly takesLong?: WorkOptions["takesLong"];
}

/** Options of {@linkcode launchInSlices}. */
export interface SlicingOptions {
  /** Returns how other threads can run blocks of the launch. Undefined, or returns undefined, if they cannot. */
  readonly sharing?: (() => LaunchSharing | undefined) | undefined;
}

/** Creates the work of a launch, which runs in time slices. */
export function launchInSlices(
  kernel: SoftwareKernel,
  geometry: LaunchGeometry,
  place: LaunchPlace,
  options: SlicingOptions = {},
): LaunchWork {
  const launch = new SlicedLaunch(new LaunchRecord(kernel, geometry, place), kernel.gang.for(geometry), options);
  return {
    run: () => launch.run(),
    release: () => launch.release(),
    delegate: (after) => launch.delegate(after),
    takesLong: () => launch.takesLong,
  };
}

/** A launch that runs its blocks in time slices. */
class SlicedLaunch {
  readonly #launch: LaunchRecord<SoftwareKernel>;
  readonly #index: BlockIndex;
  readonly #runner: BlockRunner;
  readonly #pace: Pace;
  readonly #gang: GangFunctions | undefined;
  readonly #sharing: SlicingOptions["sharing"];
  /** Whether blocks may wait for each other. */
  readonly #mayWait: boolean;
  /** The blocks that wait for each other. Undefined unless a block has waited for other blocks. */
  #residents: ResidentBlocks | undefined;

  constructor(
    launch: LaunchRecord<SoftwareKernel>,
    gang: GangFunctions | undefined,
    { sharing }: SlicingOptions,
  ) {
    this.#launch = launch;
    this.#sharing = sharing;
    this.#mayWait = launch.place.workspace !== undefined || launch.hasClusters ||
      maySpin(launch.kernel.compiled.suspensions ?? []);
    this.#gang = gang;
    this.#index = new BlockIndex(launch.geometry.grid, launch.place.order);
    launch.place.checks?.begin(launch);
    this.#runner = blockRunner(launch, gang);
    this.#pace = new Pace(launch.place.isDivided ? 0 : sliceMilliseconds);
  }

  run(): boolean | Delegated {
    try {
      const shared = this.#residents === undefined && this.takesLong ? this.#share() : undefined;
      return shared ?? (this.#launch.hasClusters ? this.#runClusters() : this.#residents?.run() ?? this.#runSlice());
    } catch (error) {
      throw error instanceof KernelStop ? this.#faultOf(error.report) : error;
    }
  }

  /** Runs clusters for a time slice. */
  #runClusters(): boolean {
    const launch = this.#launch;
    const { geometry, place: { order }, kernel } = launch;
    const start = performance.now();
    this.#residents ??= new ResidentBlocks(launch, { first: undefined, source: new ClusterIndex(geometry, order) });
    const isDone = this.#residents.run();
    const sharing = this.#sharing?.();
    if (sharing === undefined) return isDone;
    const [x, y, z] = geometry.grid;
    const milliseconds = performance.now() - start;
    sharing.workers.note(kernel, { milliseconds, blocks: x * y * z, threads: () => sharing.threads });
    return isDone;
  }

  #runSlice(): boolean | Delegated {
    const launch = this.#launch;
    const index = this.#index;
    const pace = this.#pace;
    const sharing = this.#sharing?.();
    if (sharing !== undefined) {
      pace.milliseconds = sharing.workers.areReady ? sharingPolicy.firstSliceMilliseconds : sliceMilliseconds;
    }
    const { grid } = launch.geometry;
    const first = launch.numberOfBlock(index);
    this.#runner.prepare();
    pace.begin();
    for (let isFirst = true; !index.isPastEnd; isFirst = false) {
      const last = Math.min(index.x + pace.count, grid[0]);
      const stopped = this.#runner.run(index, last);
      index.advanceTo(stopped);
      if (stopped < last) {
        const first = { block: index.take()!, scheduler: launch.scheduler! };
        this.#residents = new ResidentBlocks(launch, { first, source: index });
        return false;
      }
      // Reading the clock can take a tenth of the time of an empty launch.
      if (isFirst && index.isPastEnd && !sharing?.workers.measuresNext(launch.kernel)) return true;
      if (pace.isOver()) break;
    }
    const isDone = index.isPastEnd;
    if (sharing === undefined) return isDone;
    const blocks = (isDone ? grid[0] * grid[1] * grid[2] : launch.numberOfBlock(index)) - first;
    sharing.workers.note(launch.kernel, { milliseconds: pace.elapsed, blocks, threads: () => sharing.threads });
    return isDone || (this.#share() ?? false);
  }

  /** Whether workers run the launch from its first block on, because the kernel usually takes long. */
  get takesLong(): boolean {
    const workers = this.#sharing?.()?.workers;
    return workers?.areReady === true && workers.takeAtOnce(this.#launch.kernel, this.#mayWait);
  }

  /** Lets workers run the remaining blocks, after other work that they run. Returns undefined if they cannot. */
  delegate({ jobs }: Delegated): Delegated | undefined {
    return this.#residents === undefined ? this.#share(jobs) : undefined;
  }

  /** Lets workers run the remaining blocks, after other jobs. Returns undefined if they cannot. */
  #share(after: readonly Job[] = []): SharedLaunch | undefined {
    const sharing = this.#sharing?.();
    const launch = this.#launch;
    if (sharing === undefined || !sharing.workers.areReady || sharing.threads === 1) return undefined;
    const { geometry: { block }, kernel: { compiled } } = launch;
    const first = launch.numberOfBlock(this.#index);
    const localBytes = threadMemoryBytes(compiled, block[0] * block[1] * block[2]);
    return SharedLaunch.begin(
      { launch, gang: this.#gang, localBytes, runner: this.#runner, mayWait: this.#mayWait },
      { first, after },
      sharing,
    );
  }

  #faultOf(report: FaultReport): KernelFault {
    const { kernel, place, scheduler } = this.#launch;
    const fault = kernelFault(this.#launch.locateFault(report), kernel, place);
    place.checks?.fault(fault, report, report.stuck?.waiting ?? scheduler?.waitingThreads() ?? []);
    return fault;
  }

  release(): void {
    this.#residents?.release();
  }
}

/** The work of a launch, and the launch's checks. */
export interface CheckedWork {
  readonly work: LaunchWork;
  readonly checks: LaunchChecks;
}

/** Parameters of a checked launch other than its work. */
interface CheckedLaunch extends Pick<LaunchObservation, "onAccesses" | "onFindings"> {
  readonly running: RunningChecks;
  /** The accesses of the launch, if all of them are known before the launch runs. */
  readonly known?: PredictedAccesses | undefined;
}

/** The accesses of a launch that are known before it runs. They are only correct if the launch does not fail. */
export interface PredictedAccesses {
  readonly accesses: readonly LaunchAccess[];
  /** Returns whether the kernel may make these accesses. Called when the launch starts. */
  isAllowed(): boolean;
  /** Returns the work of the same launch, but with accesses that are observed while the launch runs. */
  observed(): CheckedWork;
}

/**
 * Wraps the work of a launch so that the accesses and findings are reported when the launch is complete, has failed, or
 * is dropped.
 */
export function checkedLaunch(
  launch: CheckedWork,
  { running, onAccesses, onFindings, known }: CheckedLaunch,
): LaunchWork {
  let current = launch, hasBegun = false, isKnown = false;
  const begin = () => {
    hasBegun = true;
    isKnown = known?.isAllowed() ?? false;
    if (known === undefined || isKnown) return;
    current = known.observed();
    launch.work.release?.();
    launch.checks.close();
  };
  return {
    run() {
      if (!hasBegun) begin();
      return running.during(current.checks, current.work.run);
    },
    release() {
      const { work, checks } = current;
      try {
        work.release?.();
        onFindings?.(checks.mistakes());
        onAccesses?.(isKnown ? known!.accesses : checks.accesses());
      } finally {
        checks.close();
      }
    },
  };
}
