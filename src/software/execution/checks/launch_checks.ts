/**
 * The checks of a running launch.
 *
 * @module
 */
import type { LaunchAccess, LaunchFinding, ThreadAccess } from "../../../kernel_checker.ts";
import type { LineInfo } from "../../../ptx/line_info.ts";
import {
  accessOperations,
  boundsGranuleShift,
  decodePlace,
  lineOfPlace,
  operationOfPlace,
} from "../../abi/addresses.ts";
import type { CompiledKernel } from "../../compiler/compile.ts";
import { unboundedLength } from "../../abi/launch_record.ts";
import type { HeapSite } from "../../memory/device_heap.ts";
import type { FaultReport, KernelFault } from "../faults/kernel_fault.ts";
import { type CheckMemory, type LaunchCells, type MemoryShadow, pageIsAllocated } from "../../memory/check_memory.ts";
import { checkState } from "../../abi/check_state.ts";
import { InitializationCheck } from "./initialization_check.ts";
import { Findings, nameBytes } from "./findings.ts";
import { type BlockObserver, observeTogether } from "../scheduling/block_records.ts";
import type { WaitingThreads } from "../scheduling/block_barriers.ts";
import { type NumberedThreads, RecordedAccesses } from "./launch_accesses.ts";
import type { MemoryCheck, StrayAccess } from "./memory_check.ts";
import { type RaceCheck, type RacingLaunch, startRaceCheck } from "./race/race_check.ts";
import { SynchronizationCheck } from "./synchronization_check.ts";

/** Parameters of {@linkcode LaunchChecks}. */
export interface LaunchChecksOptions {
  readonly lineInfo: LineInfo;
  /**
   * The part of the device's bounds table that maps each granule to the start of its allocation. Memory whose entry is
   * 0 is not global memory.
   */
  readonly allocations: Uint32Array;
  /** The memory for the tables and cells in which compiled code records accesses. */
  readonly memoryOfChecks: CheckMemory;
  readonly observesAccesses: boolean;
  /** The check `memory`; undefined if it is disabled. */
  readonly memory?: MemoryCheck | undefined;
  /** All of linear memory, which the check `race` reads; undefined if that check is disabled. */
  readonly racyMemory?: Uint8Array | undefined;
  /**
   * The shadow of linear memory, which tracks uninitialized bits for the check `initialization`; undefined if that
   * check is disabled.
   */
  readonly shadow?: MemoryShadow | undefined;
  readonly checksSynchronization?: boolean;
  /**
   * Whether the barriers of the kernel are proven correct, so that they need no checks. Faults that stop the kernel are
   * still reported as findings.
   */
  readonly hasUniformBarriers?: boolean;
  /** The offset of the module's variables in linear memory. */
  readonly imageBegin?: number | undefined;
}

/** The information about a running launch that the checks use. */
export interface RunningLaunch extends RacingLaunch, NumberedThreads {
  readonly kernel: { readonly compiled: CompiledKernel };
  /** The options of the launch. The checks read only the packed parameters. */
  readonly place: { readonly parameters: Uint8Array };
  /**
   * Returns the index of the running block, and the index, within that block, of the thread that the report identifies.
   */
  indicesOf(report: Pick<FaultReport, "thread" | "place">): Pick<ThreadAccess, "block" | "thread">;
}

const noThreads = [0, 0, 0] as const;

/** The checks of one launch. */
export class LaunchChecks {
  readonly findings: Findings = new Findings();
  readonly #options: LaunchChecksOptions;
  readonly #cells: LaunchCells;
  readonly #accesses: RecordedAccesses | undefined;
  /** The check `initialization`; undefined if it is disabled. */
  initialization: InitializationCheck | undefined;
  #launch: RunningLaunch | undefined;
  #isRunning = false;
  #race: RaceCheck | undefined;
  #synchronization: SynchronizationCheck | undefined;

  constructor(options: LaunchChecksOptions) {
    this.#options = options;
    this.#cells = options.memoryOfChecks.open();
    this.#accesses = options.observesAccesses ? new RecordedAccesses(this.#cells) : undefined;
    this.initialization = options.shadow && new InitializationCheck(this, options.shadow);
  }

  /** Starts the checks of a launch. Must be called after the version of the kernel has been chosen. */
  begin(launch: RunningLaunch): void {
    this.#launch = launch;
    const { racyMemory: bytes, allocations, checksSynchronization } = this.#options;
    const { findings } = this;
    if (checksSynchronization) {
      this.#synchronization = new SynchronizationCheck(launch, this.#options.lineInfo, this.findings);
    }
    if (bytes !== undefined) {
      const sourceOf = (place: number) => this.sourceOf(place);
      const nameOf = (offset: number, byteLength: number) => this.nameOf(offset, byteLength);
      this.#race = startRaceCheck(launch, { bytes, allocations, findings, sourceOf, nameOf, memory: this.#cells });
    }
    if (this.#isRunning) this.enter();
  }

  /** Makes the checks' tables available to compiled code. Must be called before the launch starts or resumes. */
  enter(): void {
    this.#isRunning = true;
    this.#cells.enter({ notes: this.#accesses !== undefined, races: this.#options.racyMemory !== undefined });
    const { state } = this.#cells;
    const [x, y, z] = this.#launch?.geometry.block ?? noThreads;
    state[checkState.threadsX / 4] = x;
    state[checkState.threadsXY / 4] = x * y;
    state[checkState.threadsXYZ / 4] = x * y * z;
    this.#race?.enter();
  }

  /**
   * Withdraws the checks' tables from compiled code. Must be called when the launch is suspended, because other
   * launches may run next.
   */
  leave(): void {
    this.#isRunning = false;
    this.#cells.leave();
  }

  /** Disables the check `initialization`, because the launch is proven to use no uninitialized values. */
  leaveOutInitialization(): void {
    this.initialization = undefined;
  }

  /** Frees the memory in which the checks record accesses. Must be called when the launch has ended. */
  close(): void {
    this.#cells.close();
  }

  /**
   * Returns an observer of blocks whose threads may wait for each other. Returns undefined if no check needs an
   * observer.
   */
  observeBlock(): BlockObserver | undefined {
    return observeTogether([
      this.#race?.observeBlock(),
      this.#options.hasUniformBarriers ? undefined : this.#synchronization?.observeBlock(),
      this.initialization?.observeBlock(),
    ]);
  }

  /** Whether the launch is checked for races. */
  get checksRaces(): boolean {
    return this.#race !== undefined;
  }

  /** Whether a check needs to know the accesses of the launch. */
  get needsAccesses(): boolean {
    return this.#accesses !== undefined || this.checksRaces;
  }

  /** Checks an access for races before the access is made. `order` contains the `orderBits` of the access. */
  orderedAccess(offset: number, place: number, thread: number, order: number): void {
    this.#race?.access(offset, place, thread, order);
  }

  /** Records a fence, or an operation that orders asynchronous copies, for the check `race`. */
  order(place: number, thread: number, order: number): void {
    this.#race?.order(place, thread, order);
  }

  /** Records that the kernel allocated memory. */
  allocated(offset: number, byteLength: number): void {
    this.#race?.allocated(offset, byteLength);
  }

  /** Records that the kernel frees memory. */
  frees(offset: number, byteLength: number, place: number, thread: number): void {
    this.#race?.frees(offset, byteLength, place, thread);
  }

  /** Records an access to global memory, before it is made. `place` is the encoded code location. */
  access(offset: number, place: number, thread: number): void {
    if (this.isGlobal(offset)) this.#accesses?.note(offset, place, thread, this.#launch!);
    else if (!pageIsAllocated(this.#options.allocations, offset)) this.#accesses?.ignore(offset);
  }

  /**
   * Excludes a page that contains variables of a module from the recording of accesses. Variables belong to no buffer,
   * and never share a page with a buffer.
   */
  accessVariable(offset: number): void {
    this.#accesses?.ignore(offset);
  }

  /**
   * Records that a thread tried to make an access that failed the bounds check, for example because the memory was
   * freed.
   */
  refuse(offset: number, place: number, thread: number): void {
    this.#accesses?.note(offset, place, thread, this.#launch!);
  }

  /** Reports the fault that stopped the kernel as a finding of each check to which the fault is relevant. */
  fault(fault: KernelFault, report: FaultReport, waiting: readonly WaitingThreads[]): void {
    this.#synchronization?.fault(fault, waiting, report.stuck);
    const finding = this.#options.memory?.findingOf(fault, report, (address) => this.#argumentAt(address));
    if (finding !== undefined) this.findings.add(finding.kind, () => finding);
  }

  /**
   * Returns the position, counted from 1, of the kernel argument that equals an address, or undefined if there is none.
   */
  #argumentAt(address: bigint): number | undefined {
    const { kernel: { compiled }, place: { parameters } } = this.#launch!;
    const values = new DataView(parameters.buffer, parameters.byteOffset, parameters.byteLength);
    const index = compiled.parameters.findIndex(({ offset, byteLength }) => {
      return byteLength === 8 && values.getBigUint64(offset, true) === address;
    });
    return index < 0 ? undefined : index + 1;
  }

  /** Reports an access outside of the memory from which the address was computed. */
  stray(access: StrayAccess): void {
    const { memory } = this.#options;
    const { place } = access;
    if (memory === undefined || access.origin.byteLength === unboundedLength) return;
    this.findings.add(`out-of-bounds ${place} ${access.origin.space} ${access.origin.offset}`, () => {
      const operation = accessOperations[operationOfPlace(place)]!;
      return memory.findingOfStray(access, {
        kernel: this.#launch!.kernel.compiled,
        access: {
          access: operation === "none" ? "read" : operation,
          source: this.sourceOf(place),
          ...this.threadAt(place, access.thread),
        },
      });
    });
  }

  /** Passes a barrier event of compiled code (see `barrierMarks`) to the check `synchronization`. */
  mark(mark: number, thread: number): void {
    this.#synchronization?.mark(mark, thread);
  }

  /** Returns the block and thread index of a thread of the running block, given its number in the block. */
  threadOfBlock(thread: number): Pick<ThreadAccess, "block" | "thread"> {
    const { geometry: { block: [x, y] } } = this.#launch!;
    const { block } = this.#launch!.indicesOf({});
    return { block, thread: [thread % x, Math.floor(thread / x) % y, Math.floor(thread / (x * y))] };
  }

  /**
   * Returns the block and thread index of a thread, given the code location and the number that compiled code reports.
   */
  threadAt(place: number, thread: number): Pick<ThreadAccess, "block" | "thread"> {
    return this.#launch!.indicesOf({ place: decodePlace(place), thread });
  }

  /** Returns the kernel and the source line of a code location. */
  siteOf(place: number): HeapSite {
    return { kernel: this.#launch!.kernel.compiled.name, source: this.sourceOf(place) };
  }

  /** Returns whether an offset in linear memory lies in an allocation that the device may access. */
  isGlobal(offset: number): boolean {
    return this.#options.allocations[offset >>> boundsGranuleShift] !== 0;
  }

  /**
   * Names a range of bytes that belongs to no buffer, for example a variable. Returns undefined if the range has no
   * name.
   */
  nameOf(begin: number, byteLength: number): string | undefined {
    return nameBytes(this.#launch!.kernel.compiled, { begin, byteLength }, this.#options.imageBegin);
  }

  /** Returns the source line from which the PTX at an encoded code location was compiled. */
  sourceOf(place: number): string {
    return this.sourceOfLine(lineOfPlace(place));
  }

  /** Returns the source line from which a line of the PTX was compiled. */
  sourceOfLine(line: number): string {
    return this.#options.lineInfo.sourceOf(line) ?? `PTX line ${line}`;
  }

  /** Returns all recorded accesses to global memory. */
  accesses(): LaunchAccess[] {
    if (this.#accesses === undefined || this.#launch === undefined) return [];
    return this.#accesses.toArray((place) => this.sourceOf(place), this.#launch);
  }

  /** Completes the checks, and returns all findings. */
  mistakes(): LaunchFinding[] {
    this.#race?.finish();
    return this.findings.toArray();
  }
}

/** Forwards the calls of compiled kernels to the checks of the running launch. Only one launch runs at a time. */
export class RunningChecks {
  #current: LaunchChecks | undefined;

  /** Calls `run`, which runs a part of a launch. Until `run` returns, forwards the kernel's calls to `checks`. */
  during<Result>(checks: LaunchChecks, run: () => Result): Result {
    this.#current = checks;
    checks.enter();
    try {
      return run();
    } finally {
      checks.leave();
      this.#current = undefined;
    }
  }

  /** The check `initialization` of the running launch. Undefined if it is disabled. */
  get initialization(): InitializationCheck | undefined {
    return this.#current?.initialization;
  }

  /** @see LaunchChecks.access */
  access(offset: number, place: number, thread: number): void {
    this.#current?.access(offset, place, thread);
  }

  /** @see LaunchChecks.accessVariable */
  accessVariable(offset: number): void {
    this.#current?.accessVariable(offset);
  }

  /** Whether the running launch is checked for races. */
  get checksRaces(): boolean {
    return this.#current?.checksRaces === true;
  }

  /** Whether a check needs to know the accesses of the running launch. */
  get needsAccesses(): boolean {
    return this.#current?.needsAccesses === true;
  }

  /** @see LaunchChecks.orderedAccess */
  orderedAccess(offset: number, place: number, thread: number, order: number): void {
    this.#current?.orderedAccess(offset, place, thread, order);
  }

  /** @see LaunchChecks.order */
  order(place: number, thread: number, order: number): void {
    this.#current?.order(place, thread, order);
  }

  /** @see LaunchChecks.allocated */
  allocated(offset: number, byteLength: number): void {
    this.#current?.allocated(offset, byteLength);
  }

  /** @see LaunchChecks.frees */
  frees(offset: number, byteLength: number, place: number, thread: number): void {
    this.#current?.frees(offset, byteLength, place, thread);
  }

  /** Returns the running kernel and the source line of a code location, or undefined if the launch is not checked. */
  siteOf(place: number): HeapSite | undefined {
    return this.#current?.siteOf(place);
  }

  /** @see LaunchChecks.stray */
  stray(access: StrayAccess): void {
    this.#current?.stray(access);
  }

  /** @see LaunchChecks.mark */
  mark(mark: number, thread: number): void {
    this.#current?.mark(mark, thread);
  }

  /** @see LaunchChecks.refuse */
  refuse(offset: number, place: number, thread: number): void {
    this.#current?.refuse(offset, place, thread);
  }
}
