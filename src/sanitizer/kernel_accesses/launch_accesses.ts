/**
 * Derives the accesses of launches from the PTX, as far as possible. Used for drivers that do not observe accesses, and
 * for proofs that make checks unnecessary.
 *
 * @module
 */
import type { Driver, KernelLaunch, LinkedImage } from "../../driver.ts";
import { type LaunchResult, launchResult, type LaunchShape, parameterBits, type UsedParameter } from "./launch_run.ts";
import type { GlobalAccesses, LaunchAccess } from "../../kernel_checker.ts";
import { parsePtx } from "../../ptx/parsing/parser.ts";
import { ptxText } from "../../ptx/image_kind.ts";
import { PtxError, type PtxModule } from "../../ptx/syntax.ts";
import type { PossibleAccess, RangeAccess } from "../order/stream_order.ts";
import type { LineInfo } from "../../ptx/line_info.ts";
import { noBase } from "./domain.ts";
import { mergedRanges, without } from "./covered_bytes.ts";
import { kernelCode } from "./kernel_code.ts";
import type { ResolvedInstruction } from "../../ptx/instructions/resolved_instruction.ts";

import { type ExactAccesses, placedAccesses } from "./exact_accesses.ts";
import { accessOf, PreparedCode } from "./thread_state.ts";
import { possibleAccesses } from "./possible_accesses.ts";
import { areSeparate } from "./separate_accesses.ts";

/** Options for drivers that do not observe the accesses of kernels. */
export interface KernelOptions {
  /** Whether to also report possible accesses, which are those at unknown addresses. */
  readonly withPossible?: boolean;
  /** Whether to instrument kernels whose accesses cannot be derived from the PTX. */
  readonly instruments?: boolean;
  /** Whether to report copies of uninitialized memory to the host. */
  readonly withHostReads?: boolean;
}

/** The accesses of a launch, as far as they can be derived from the PTX. */
export interface KnownAccesses {
  /** Whether `certain` contains all accesses of the launch. */
  readonly isExact: boolean;
  /** The accesses that the launch certainly makes. */
  readonly certain: readonly RangeAccess[];
  /**
   * The possible accesses, if they are to be reported. The `address` of each is the value of an argument from which the
   * instruction may compute the accessed address.
   */
  readonly possible: readonly PossibleAccess[];
  /**
   * For each kind of access, the source line of the instructions whose accesses are unknown. Undefined if there are
   * several such lines.
   */
  readonly sources: ReadonlyMap<string, string | undefined>;
}

/** The maximum number of analysis results that are cached for a kernel. */
const mostResults = 64;
/** The maximum number of ranges that `allOf` returns. Callers would take too long to examine more. */
const mostRangesOfAll = 2048;
const nothing: KnownAccesses = { isExact: false, certain: [], possible: [], sources: new Map() };

/** A launch's shape and arguments, with the result of its analysis. */
interface KnownLaunch extends LaunchShape {
  readonly result: LaunchResult;
}

/** The driver calls that `LaunchAccesses` wraps. */
type ModuleCalls = Pick<Driver, "moduleLoadData" | "linkModules" | "moduleUnload">;

/** Determines the accesses of launches by analyzing the kernels' PTX. */
export class LaunchAccesses {
  readonly #modules = new Map<bigint, LoadedModule>();
  readonly #kernels = new Map<bigint, AnalyzedKernel>();
  readonly #options: KernelOptions;

  constructor(options: KernelOptions) {
    this.#options = options;
  }

  /** Returns wrappers of the driver's module calls that observe and forward each call. */
  calls(
    driver: Driver,
    load: Driver["moduleLoadData"] = (device, image, options) => driver.moduleLoadData(device, image, options),
  ): ModuleCalls {
    return {
      moduleLoadData: (device, image, options) => {
        const module = load(device, image, options);
        this.#modules.set(module, new LoadedModule([image]));
        return module;
      },
      linkModules: (device, images: readonly LinkedImage[], options) => {
        const module = driver.linkModules(device, images, options);
        this.#modules.set(module, new LoadedModule(images.map(({ image }) => image)));
        return module;
      },
      moduleUnload: (device, module) => {
        driver.moduleUnload(device, module);
        for (const kernel of this.#modules.get(module)?.kernels ?? []) this.#kernels.delete(kernel);
        this.#modules.delete(module);
      },
    };
  }

  /** Registers a kernel of a module. Launches of the kernel are analyzed from the module's PTX. */
  addKernel(kernel: bigint, module: bigint, name: string): void {
    const loaded = this.#modules.get(module);
    if (loaded === undefined || this.#kernels.has(kernel)) return;
    loaded.kernels.push(kernel);
    this.#kernels.set(kernel, new AnalyzedKernel(loaded, name));
  }

  /** Returns the accesses of a launch, as far as they are known. */
  of(launch: KernelLaunch): KnownAccesses {
    return this.#kernels.get(launch.kernel)?.accessesOf(launch, this.#options) ?? nothing;
  }

  /** Returns whether it is proven that no two threads of a launch make conflicting accesses. */
  areSeparate(launch: KernelLaunch): boolean {
    return this.#kernels.get(launch.kernel)?.areSeparate(launch) ?? false;
  }

  /**
   * Returns whether it is proven that all threads of each block reach each barrier together, and that the lanes of a
   * warp exchange no data. False for small launches, which are not analyzed.
   */
  hasUniformBarriers(launch: KernelLaunch): boolean {
    return this.#kernels.get(launch.kernel)?.hasUniformBarriers(launch) ?? false;
  }

  /** Returns all accesses of a launch, as a driver would report them. Undefined if some of them are unknown. */
  exactlyOf(launch: KernelLaunch): readonly LaunchAccess[] | undefined {
    return this.#kernels.get(launch.kernel)?.exactlyOf(launch);
  }

  /**
   * Returns all global memory that a launch accesses. Undefined if some of the accesses are unknown, or if the launch
   * may read other memory before writing it.
   */
  allOf(launch: KernelLaunch): GlobalAccesses | undefined {
    return this.#kernels.get(launch.kernel)?.allOf(launch);
  }
}

/** The PTX of a module. It is parsed when a kernel of the module is first launched. */
class LoadedModule {
  readonly kernels: bigint[] = [];
  #images: readonly (string | Uint8Array)[];
  #parsed: readonly PtxModule[] | undefined;

  constructor(images: readonly (string | Uint8Array)[]) {
    // Copy the bytes, because the caller may change them later.
    this.#images = images.map((image) => typeof image === "string" ? image : image.slice());
  }

  get parsed(): readonly PtxModule[] {
    if (this.#parsed === undefined) {
      this.#parsed = this.#images.flatMap(parsed);
      this.#images = [];
    }
    return this.#parsed;
  }
}

function parsed(image: string | Uint8Array): PtxModule[] {
  const text = ptxText(image);
  if (text === undefined) return [];
  try {
    return [parsePtx(text)];
  } catch (error) {
    // Ignore the error: drivers may accept PTX that the parser does not support.
    if (error instanceof PtxError) return [];
    throw error;
  }
}

/** A kernel, and the cached results of analyzing its launches. */
class AnalyzedKernel {
  readonly #module: LoadedModule;
  readonly #name: string;
  #prepared: { readonly code: PreparedCode; readonly ptx: PtxModule } | "unknown" | undefined;
  #results = new Map<string, LaunchResult>();
  #last: KnownLaunch | undefined;
  readonly #exact = new WeakMap<LaunchResult, ExactAccesses | undefined>();
  /** Statistics of the analyses for `exactlyOf`. */
  readonly #cost = new AnalysisCost();
  /** Statistics of the analyses for `hasUniformBarriers`. */
  readonly #costOfBarriers = new AnalysisCost();
  /** The parameters on whose values the analysis results depend, keyed by offset and size. */
  #parameters = new Map<string, LaunchResult["parameters"][number]>();

  constructor(module: LoadedModule, name: string) {
    this.#module = module;
    this.#name = name;
  }

  accessesOf(launch: KernelLaunch, { withPossible, instruments }: KernelOptions): KnownAccesses {
    const prepared = this.#prepared ??= this.#prepare();
    if (prepared === "unknown") return nothing;
    const result = this.#resultOf(launch, prepared);
    const possible = withPossible ? possibleAccesses(result.possible, prepared, launch.parameters) : nothing.possible;
    const sources = instruments ? sourcesOf(result.possible, prepared.ptx.lineInfo) : nothing.sources;
    return { isExact: result.possible.length === 0, certain: placed(result, launch.parameters), possible, sources };
  }

  areSeparate(launch: KernelLaunch): boolean {
    const prepared = this.#prepared ??= this.#prepare();
    if (prepared === "unknown") return false;
    const { separate } = this.#resultOf(launch, prepared);
    return separate !== undefined && areSeparate(separate, launch.parameters);
  }

  hasUniformBarriers(launch: KernelLaunch): boolean {
    // For a small launch, the checks take less time than compiling a version of the kernel without checks.
    if (!isLarge(launch)) return false;
    const prepared = this.#prepared ??= this.#prepare();
    if (prepared === "unknown" || prepared.code.barriers === "other") return false;
    if (prepared.code.barriers === "none") return true;
    const known = this.#known(launch);
    if (known !== undefined) return known.hasUniformBarriers;
    const cost = this.#costOfBarriers;
    if (!cost.pays(launch, (launch, other) => this.#isLike(launch, other))) return false;
    const { hasUniformBarriers } = this.#resultOf(launch, prepared);
    cost.made(hasUniformBarriers);
    return hasUniformBarriers;
  }

  exactlyOf(launch: KernelLaunch): readonly LaunchAccess[] | undefined {
    const prepared = this.#prepared ??= this.#prepare();
    if (prepared === "unknown") return undefined;
    const known = this.#known(launch);
    if (known !== undefined && this.#exact.has(known)) this.#cost.used();
    else if (!this.#cost.pays(launch, (launch, other) => this.#isLike(launch, other))) return undefined;
    const exact = this.#exactOf(known ?? this.#resultOf(launch, prepared));
    return exact && placedAccesses(exact, launch.parameters);
  }

  #exactOf(result: LaunchResult): ExactAccesses | undefined {
    if (!this.#exact.has(result)) {
      this.#exact.set(result, result.exact());
      this.#cost.made(this.#exact.get(result) !== undefined);
    }
    return this.#exact.get(result);
  }

  allOf(launch: KernelLaunch): GlobalAccesses | undefined {
    const prepared = this.#prepared ??= this.#prepare();
    if (prepared === "unknown") return undefined;
    const result = this.#resultOf(launch, prepared);
    if (!result.isAll() || result.known.length > mostRangesOfAll) return undefined;
    const all = placed(result, launch.parameters).map(({ address, byteLength, access }) => {
      return { address: BigInt(address), byteLength, access };
    });
    return {
      reads: all.filter(({ access }) => access !== "write"),
      writes: all.filter(({ access }) => access !== "read"),
    };
  }

  #prepare(): { code: PreparedCode; ptx: PtxModule } | "unknown" {
    const found = this.#module.parsed.flatMap((ptx) =>
      ptx.functions.filter(({ name, kind, body }) => name === this.#name && kind === "entry" && body !== undefined)
        .map((kernel) => ({ ptx, kernel }))
    );
    // A module may have several definitions of the kernel, for example of a weak symbol, which may differ.
    if (found.length !== 1) return "unknown";
    const [{ ptx, kernel }] = found as [typeof found[number]];
    // The launch states fewer blocks than the kernel has.
    if (kernel.directives.some(({ name }) => name === "blocksareclusters")) return "unknown";
    try {
      return { code: new PreparedCode(kernelCode(kernel, ptx)), ptx };
    } catch (error) {
      // Ignore the error: drivers may support types that the parser does not.
      if (error instanceof PtxError) return "unknown";
      throw error;
    }
  }

  #resultOf(launch: KernelLaunch, { code, ptx }: { code: PreparedCode; ptx: PtxModule }): LaunchResult {
    const known = this.#known(launch);
    if (known !== undefined && known === this.#last?.result) return known;
    const { buffer, byteOffset, byteLength } = launch.parameters;
    const parameters = new DataView(buffer.slice(byteOffset, byteOffset + byteLength));
    const result = known ?? this.#analyze(launch, { code, ptx });
    this.#last = { ...shapeOf(launch), parameters, result };
    return result;
  }

  /** Returns the cached result for a launch's shape and values of the used parameters. */
  #known(launch: KernelLaunch): LaunchResult | undefined {
    if (this.#last !== undefined && this.#isLike(launch, this.#last)) return this.#last.result;
    return this.#results.get(this.#keyOf(launch));
  }

  /**
   * Returns whether a launch has the same shape as another one, and the same values of the used parameters. This is the
   * common case: programs mostly repeat a launch with different pointers.
   */
  #isLike({ gridX, gridY, gridZ, blockX, blockY, blockZ, parameters }: KernelLaunch, other: LaunchShape): boolean {
    const { grid, block } = other;
    const isSameShape = gridX === grid[0] && gridY === grid[1] && gridZ === grid[2] &&
      blockX === block[0] && blockY === block[1] && blockZ === block[2];
    if (!isSameShape) return false;
    for (const used of this.#parameters.values()) {
      if (!isSameParameter(used, parameters, other.parameters)) return false;
    }
    return true;
  }

  #analyze(launch: KernelLaunch, { code, ptx }: { code: PreparedCode; ptx: PtxModule }): LaunchResult {
    const result = launchResult(code, ptx.lineInfo, shapeOf(launch));
    const count = this.#parameters.size;
    for (const used of result.parameters) this.#parameters.set(`${used.offset} ${used.bits}`, used);
    // If this result depends on a parameter that no earlier result used, the keys of the earlier results lack the
    // parameter's value. Drop the earlier results.
    if (this.#parameters.size > count || this.#results.size >= mostResults) this.#results.clear();
    this.#results.set(this.#keyOf(launch), result);
    return result;
  }

  #keyOf({ gridX, gridY, gridZ, blockX, blockY, blockZ, parameters }: KernelLaunch): string {
    let key = `${gridX},${gridY},${gridZ},${blockX},${blockY},${blockZ}`;
    for (const used of this.#parameters.values()) key += `,${parameterBits(parameters, used)}`;
    return key;
  }
}

function shapeOf({ gridX, gridY, gridZ, blockX, blockY, blockZ, parameters }: KernelLaunch): LaunchShape {
  return { grid: [gridX, gridY, gridZ], block: [blockX, blockY, blockZ], parameters };
}

/**
 * Returns whether two launches have the same value of a parameter. Compares bytes, because reading BigInts is slower.
 */
function isSameParameter({ offset, bits }: UsedParameter, a: DataView, b: DataView): boolean {
  const end = offset + bits / 8;
  if (offset < 0 || end > a.byteLength) return true;
  for (let at = offset; at < end; at++) if (a.getUint8(at) !== b.getUint8(at)) return false;
  return true;
}

/**
 * Returns the known accesses of a launch with absolute addresses, computed from the values of the pointer parameters.
 */
function placed({ known }: LaunchResult, parameters: DataView): RangeAccess[] {
  return known.map(({ base, begin, end, access, source, parts }) => {
    const isThere = base !== noBase && base + 8 <= parameters.byteLength;
    const start = isThere ? parameters.getUint32(base, true) + parameters.getUint32(base + 4, true) * 2 ** 32 : 0;
    return { address: start + begin, byteLength: end - begin, access, source, parts };
  });
}

function sourcesOf(instructions: readonly ResolvedInstruction[], lineInfo: LineInfo): Map<string, string | undefined> {
  const sources = new Map<string, string | undefined>();
  for (const instruction of instructions) {
    const found = accessOf(instruction);
    if (found === undefined || found === "unknown") continue;
    const source = lineInfo.sourceOf(instruction.line) ?? `PTX line ${instruction.line}`;
    const isOther = sources.has(found.access) && sources.get(found.access) !== source;
    sources.set(found.access, isOther ? undefined : source);
  }
  return sources;
}

/**
 * Returns the accesses that an instrumented launch has recorded, with their source lines as far as these are known.
 *
 * @param noted the recorded accesses
 */
export function withSources(noted: readonly RangeAccess[], { certain, sources }: KnownAccesses): RangeAccess[] {
  const rest = (["read", "write", "atomic"] as const).flatMap((kind) => {
    const ranges = (accesses: readonly RangeAccess[]) =>
      mergedRanges(
        accesses.filter(({ access }) => access === kind)
          .map(({ address, byteLength }) => ({ begin: address, end: address + byteLength })),
      );
    return without(ranges(noted), ranges(certain)).map(({ begin, end }): RangeAccess => {
      return { address: begin, byteLength: end - begin, access: kind, source: sources.get(kind) };
    });
  });
  return [...certain, ...rest];
}

/** The minimum number of threads of a launch for which analyzing the launch is faster than observing each thread. */
const fewThreads = 4096;
/** The number of launches of a kernel that are always analyzed. For later launches, statistics decide. */
const trials = 8;

/** Returns whether a launch has so many threads that analyzing it is faster than observing each thread. */
export function isLarge({ gridX, gridY, gridZ, blockX, blockY, blockZ }: KernelLaunch): boolean {
  return gridX * gridY * gridZ * blockX * blockY * blockZ >= fewThreads;
}

/** Statistics that decide whether analyzing further launches of a kernel is worthwhile. */
export class AnalysisCost {
  /** The number of analyses made. */
  #made = 0;
  /** The number of analyses that gave no useful result. */
  #failed = 0;
  /** The number of times that a cached result was reused. */
  #used = 0;
  /** The last launch for which `pays` returned false. */
  #declined: LaunchShape | undefined;

  /**
   * Returns whether to analyze a launch. Returns true for a repetition of the last launch for which it returned false.
   */
  pays(launch: KernelLaunch, isLike: (launch: KernelLaunch, other: LaunchShape) => boolean): boolean {
    const { gridX, gridY, gridZ, blockX, blockY, blockZ, parameters } = launch;
    if (this.#made < trials + this.#used) return true;
    if (isLarge(launch) && this.#failed < this.#made / 2) return true;
    if (this.#declined !== undefined && isLike(launch, this.#declined)) return true;
    const { buffer, byteOffset, byteLength } = parameters;
    this.#declined = {
      grid: [gridX, gridY, gridZ],
      block: [blockX, blockY, blockZ],
      parameters: new DataView(buffer.slice(byteOffset, byteOffset + byteLength)),
    };
    return false;
  }

  /**
   * Counts an analysis.
   *
   * @param hasFound whether the analysis gave a useful result
   */
  made(hasFound: boolean): void {
    this.#made++;
    if (!hasFound) this.#failed++;
  }

  /** Counts the reuse of a cached result. */
  used(): void {
    this.#used++;
  }
}
