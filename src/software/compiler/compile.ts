/**
 * Compiles PTX to WebAssembly, in these stages:
 *
 * 1. `src/ptx/` parses text into a syntax tree. 2. `typing/` resolves names, lays out variables, and finds each
 * instruction's row in the instruction table. A row has two halves: `src/ptx/instructions/` contains the syntax, the
 * section of the manual and the traits, and `instructions/` contains the code to emit. The types of operands are
 * checked later, while code is emitted. 3. `contraction/` replaces products and sums with fused multiply-adds where a
 * driver's compiler does. 4. `control_flow/` builds a graph of basic blocks, once for each function.
 * `src/ptx/analysis/` has the analyses that the next stages run on the graph. A stage that changes the graph works on a
 * copy. 5. `lockstep/` finds where the lanes of a warp must wait for each other, because on a GPU they advance
 * together. 6. `codegen/` emits the code of each instruction's row. Calls `helpers/` where WebAssembly has no such
 * instruction. 7. `simd/` compiles a second version of the kernel, which runs gangs of threads, if the kernel allows
 * it. 8. `webassembly/` encodes the result.
 *
 * A kernel and the functions that it calls become one WebAssembly function, or several if they are large
 * (`codegen/kernel_parts.ts`). Threads are coroutines: at a suspend point, a thread saves its live registers and leaves
 * the function, which begins with a switch on where the thread resumes (`codegen/code_generator.ts`). Every stage takes
 * O(n) or O(n log n) time for a kernel of n instructions, as `deno task bench scaling` measures. `tensor_cores/` has the
 * arithmetic of products of matrices. `../abi/` defines the interface between compiled kernels and their caller.
 *
 * The kernels of a large module go through stages 3 to 8 when they are first used. Because a module with invalid PTX
 * must be refused when it is loaded, their instructions are checked after stage 2 (`codegen/trial_emission.ts`).
 *
 * @module
 */
import { kernelFlows } from "./control_flow/function_flow.ts";
import type { LineInfo } from "../../ptx/line_info.ts";
import { type KernelSignature, kernelSignature } from "../../ptx/kernel_signature.ts";
import { parsePtx } from "../../ptx/parsing/parser.ts";
import { type FunctionDeclaration, PtxError, type PtxModule } from "../../ptx/syntax.ts";
import { generateKernel, type GeneratorContext } from "./codegen/code_generator.ts";
import { hasFusedMultiplyAdd } from "./webassembly/engine_features.ts";
import { contractKernel } from "./contraction/contract.ts";
import { joinProducts } from "./contraction/join_products.ts";
import { defaultStackBytes, type EmitOptions } from "./codegen/function_emitter.ts";
import { helperCount, helperFunctions, importedFunctions } from "./helpers/helper_functions.ts";
import { usesClusterMemory } from "../../ptx/instructions/instruction_traits.ts";
import { usesHeap } from "./instructions/host_calls.ts";
import { instructionSet } from "./instructions/instructions.ts";
import { findsWorkspace } from "./instructions/special_registers.ts";
import type { InstructionSet } from "./typing/find_form.ts";
import type { ModuleImage } from "./typing/module_image.ts";
import { maximumPassedBytes } from "./typing/call_layout.ts";
import { type ModuleScope, moduleScope } from "./typing/module_scope.ts";
import type { CallSite, Suspension } from "../abi/launch_record.ts";
import { findLockstepPoints, type LockstepPoints } from "./lockstep/lockstep_points.ts";
import type { LaunchRules } from "../../ptx/analysis/address_forms.ts";
import { type GangContext, generateGangKernel } from "./simd/gang_generator.ts";
import { KernelFunctions } from "./webassembly/kernel_functions.ts";
import type { GangWidth } from "./simd/gang_layout.ts";
import type { Variable } from "../../ptx/instructions/resolved_instruction.ts";
import { TrialEmission } from "./codegen/trial_emission.ts";
import { StructureError } from "./control_flow/structured_code.ts";
import { scalarTypes } from "../../ptx/instructions/scalar_types.ts";
import { type LaunchBounds, launchBounds } from "./typing/launch_bounds.ts";
import { architectureOf, checkHeader } from "./typing/supported_ptx.ts";
import { UnsupportedPtxError } from "../../ptx/instruction_support.ts";
import { instructionsOf, type ResolvedKernel, resolveKernel } from "./typing/resolver.ts";
import {
  encodeModule,
  type FunctionDefinition,
  isOfPossibleSize,
  maximumFunctionBytes,
  maximumFunctionLocals,
} from "./webassembly/module_encoder.ts";

export { hostFunctionImports } from "./helpers/host_imports.ts";
export { type ImageVariable, initializeImage, type ModuleImage } from "./typing/module_image.ts";
export { hasRowsOfWarps, imageMemory } from "./lockstep/warp_rules.ts";
export type { LaunchRules } from "../../ptx/analysis/address_forms.ts";
export { PtxVersionError } from "./typing/supported_ptx.ts";
export { UnsupportedPtxError } from "../../ptx/instruction_support.ts";

/** A compiled PTX module. */
export interface CompiledModule {
  /**
   * The WebAssembly module. The module imports from `device`: `memory`, a shared memory of 4 GiB; `imageAddress`, an
   * i64 with the address of the module's variables; and the functions of `hostFunctionImports`. For each kernel, the
   * module exports a function with the kernel's name, which takes the offset of a launch record (see
   * `../abi/launch_record.ts`) and runs the blocks or threads specified by the record.
   */
  readonly wasm: Uint8Array<ArrayBuffer>;
  readonly kernels: ReadonlyMap<string, CompiledKernel>;
  /** The number of the target architecture: 90 for sm_90. */
  readonly ptxVersion: number;
  /**
   * The kernels that were not compiled. Each maps to the error for the unsupported PTX, which is in the kernel or in a
   * function that it may call.
   */
  readonly refusals: ReadonlyMap<string, UnsupportedPtxError>;
  /** The kernels that were checked, but not compiled. They are not in `kernels` and `wasm`. */
  readonly deferred: ReadonlyMap<string, DeferredKernel>;
  /** Maps lines of the PTX to the source lines that they were compiled from. */
  readonly lineInfo: LineInfo;
  /** The module's variables, to be placed in memory at a multiple of 65536 before the module is instantiated. */
  readonly image: ModuleImage;
}

/** A kernel that is valid PTX, and is compiled when it is first used. */
export interface DeferredKernel {
  /**
   * Compiles the kernel.
   *
   * @throws {UnsupportedPtxError} If the kernel exceeds an engine's limits
   */
  compile(): KernelModule;
}

/** A compiled kernel, and the properties that its caller needs to run it. */
export interface CompiledKernel extends LaunchBounds {
  readonly name: string;
  readonly parameters: KernelSignature["parameters"];
  readonly parameterBytes: number;
  /** The size of the static shared memory, in bytes. Dynamic shared memory begins after it. */
  readonly sharedBytes: number;
  /** The distance between the local memories of successive threads, in bytes. */
  readonly localBytes: number;
  /** The distance between the saved registers of successive threads, in bytes. */
  readonly savedBytes: number;
  /** The size of the memory in which a block's products of matrices are computed, in bytes. 0 if there are none. */
  readonly productBytes: number;
  /** The size of the kernel's own frame in local memory, in bytes. */
  readonly frameBytes: number;
  /** The number of bytes of its local memory that a thread may access. */
  readonly accessibleLocalBytes: number;
  /** The PTX lines where threads resume, indexed by the `resumeIndex` of a thread's record. The array is sparse. */
  readonly resumeLines: readonly number[];
  /** Whether threads may perform release operations other than barriers. Valid only if the `race` check is enabled. */
  readonly hasReleases: boolean;
  /**
   * Whether the kernel may read registers that are uninitialized for any reason other than a load of uninitialized
   * memory. Valid only if the `initialization` check is enabled.
   */
  readonly mayReadUnset: boolean;
  /**
   * Whether the kernel reads the address of the workspace of a cooperative launch. Without a workspace, `grid.sync()`
   * traps.
   */
  readonly findsWorkspace: boolean;
  /** Whether the kernel calls `malloc` or `free`. */
  readonly usesHeap: boolean;
  /** Whether the kernel or a function that it calls has loops: its length then does not limit the time of a block. */
  readonly hasLoops: boolean;
  /** The call sites, by the `resumeIndex` where the caller resumes. */
  readonly callSites: ReadonlyMap<number, CallSite>;
  /**
   * The suspensions: the points where threads may be suspended. A kernel with suspensions runs one block at a time: the
   * caller runs the block's threads repeatedly until all have exited. Undefined if every thread runs to completion in
   * one call. In that case, all threads use the local memory of the first thread.
   */
  readonly suspensions: readonly Suspension[] | undefined;
  /**
   * The number of points where the lanes of a warp wait for each other, because the order of their accesses matters.
   */
  readonly lockstepPointCount: number;
  /**
   * Whether the kernel stores to memory that other lanes of a warp may access. If true, the lockstep points of this
   * version may be wrong for launches in which the threads of a warp are not adjacent along x, or in which two of
   * `pointerParameters` point into the same memory.
   */
  readonly ordersAccesses: boolean;
  /** The offsets of the parameters that the kernel uses as pointers, in bytes. */
  readonly pointerParameters: readonly number[];
  /**
   * The variables that the kernel and the functions that it may call refer to. Empty unless kernel checks are enabled.
   */
  readonly variables: readonly Variable[];
  /**
   * Recompiles the kernel for launches that satisfy `rules`. Undefined if these launches need the same lockstep points
   * as this version.
   */
  compileForLaunch(rules: LaunchRules): KernelModule | undefined;
  /**
   * Recompiles the kernel to run gangs of threads. Undefined if gangs cannot run the kernel, or are not profitable.
   */
  compileGangs(width: GangWidth): GangKernel | undefined;
}

/** A kernel that was compiled by itself, with the WebAssembly module that exports it. */
export interface KernelModule {
  readonly wasm: Uint8Array<ArrayBuffer>;
  readonly kernel: CompiledKernel;
}

/**
 * A kernel that runs gangs of threads. Its launches must have blocks whose x dimension is a multiple of the gang width.
 * See `gang_generator.ts`.
 */
export interface GangKernel {
  /**
   * The WebAssembly module, with the imports of {@linkcode CompiledModule}. The module exports two functions. `gangs`
   * runs the blocks specified by the launch record and returns the index of the block where it stopped. If some blocks
   * remain, the threads of the block where it stopped have been saved in thread records, and `threads` runs these
   * threads to completion, as for a kernel whose threads can be suspended, for example at barriers.
   */
  readonly wasm: Uint8Array<ArrayBuffer>;
  /** The number of threads in a gang. */
  readonly width: GangWidth;
  /** The number of registers in the innermost loops that are held in vectors, with one value per thread of the gang. */
  readonly vectorRegisters: number;
  /** The number of 64-bit registers among `vectorRegisters`. */
  readonly wideRegisters: number;
  /** The size of each gang's save area, in bytes. */
  readonly gangBytes: number;
  /**
   * Whether the kernel has barriers, so that all gangs of a block are live at once. If false, the gangs run one after
   * another.
   */
  readonly hasBarriers: boolean;
  /** Whether some loop runs under a mask, so that a gang finishes the loop together even if its threads diverge. */
  readonly hasMaskedLoops: boolean;
  /** {@linkcode CompiledKernel.localBytes}, for threads that have left their gang. */
  readonly localBytes: number;
  /** {@linkcode CompiledKernel.savedBytes}, for threads that have left their gang. */
  readonly savedBytes: number;
  /** {@linkcode CompiledKernel.frameBytes}, for threads that have left their gang. */
  readonly frameBytes: number;
  /** {@linkcode CompiledKernel.resumeLines}, for threads that have left their gang. */
  readonly resumeLines: readonly number[];
  /** {@linkcode CompiledKernel.suspensions}, for threads that have left their gang. */
  readonly suspensions: readonly Suspension[];
}

const memoryPages = 65536;
const maximumSharedBytes = 227 * 1024;
const maximumLocalBytes = 512 * 1024;
/**
 * The maximum code size of a gang kernel with more than `manyDivergencePoints` resume points, in bytes. Larger kernels
 * run thread by thread, because engines took 7 GB of memory to compile 5 MB of such code.
 */
const maximumGangBytes = 3_000_000;
/** The number of resume points above which `maximumGangBytes` applies. */
const manyDivergencePoints = 1000;

/** Options for compiling a module. */
export interface CompilePtxOptions extends Partial<EmitOptions> {
  /** Replaces the instruction set of the software device. */
  readonly instructions?: InstructionSet;
  /**
   * The number of statements above which the kernels of a module are only checked, and compiled when they are first
   * used. Default: Infinity. A module with one kernel is always compiled: its kernel will be used.
   */
  readonly deferredAbove?: number;
}

/**
 * Compiles a PTX module, given as text or parsed.
 *
 * @throws {PtxError} If the text is not valid PTX (a GPU would reject it too). The error includes the line
 */
export function compilePtx(
  source: string | PtxModule,
  { instructions = instructionSet, deferredAbove = Infinity, ...options }: CompilePtxOptions = {},
): CompiledModule {
  const parsed = typeof source === "string" ? parsePtx(source, checkHeader) : source;
  const { target, functions, lineInfo } = parsed;
  const module = moduleScope(parsed, instructions);
  const { image } = module;
  const isOptimized = !target.names.includes("debug");
  const all: EmitOptions = {
    boundsChecks: true,
    fusedMultiplyAdd: hasFusedMultiplyAdd(),
    gangs: true,
    observesAccesses: false,
    kernelChecks: new Set(),
    variesThreads: false,
    checksWrites: false,
    dividedAbove: 100_000,
    partBytes: 100_000,
    stackBytes: defaultStackBytes,
    ...options,
  };
  const kernels = new Map<string, CompiledKernel>();
  const refusals = new Map<string, UnsupportedPtxError>();
  const deferred = new Map<string, DeferredKernel>();
  const definitions: FunctionDefinition[] = [];
  const defined = functions.filter(({ kind, body }) => kind === "entry" && body !== undefined);
  const statements = defined.reduce((sum, { body }) => sum + body!.length, 0);
  const defers = defined.length > 1 && statements > deferredAbove;
  const trial = defers ? new TrialEmission(image.constants, all) : undefined;
  for (const kernel of defined) {
    const { name, line } = kernel;
    if (kernels.has(name) || deferred.has(name) || refusals.has(name)) {
      throw new PtxError(line, `cannot define the kernel "${name}" twice`);
    }
    try {
      const checked = checkKernel(kernel, { module, isOptimized, options: all });
      if (trial?.accepts(checked.resolved) && checked.hasSmallFrames) {
        deferred.set(name, deferredKernel(checked));
        continue;
      }
      const generated = compileKernel(checked, helperCount + definitions.length);
      kernels.set(name, generated.compiled);
      definitions.push(...generated.definitions);
    } catch (error) {
      if (!(error instanceof UnsupportedPtxError)) throw error;
      refusals.set(name, error);
    }
  }
  return {
    wasm: encodeKernels(definitions),
    kernels,
    deferred,
    ptxVersion: architectureOf(target),
    refusals,
    image,
    lineInfo,
  };
}

function deferredKernel(checked: CheckedKernel): DeferredKernel {
  return {
    compile: () => {
      const { definitions, compiled } = compileKernel(checked, helperCount);
      return { wasm: encodeKernels(definitions), kernel: compiled };
    },
  };
}

function encodeKernels(definitions: readonly FunctionDefinition[]): Uint8Array<ArrayBuffer> {
  return encodeModule({
    memory: { module: "device", name: "memory", pages: memoryPages },
    globals: [{ module: "device", name: "imageAddress", valueType: "i64" }],
    imports: importedFunctions(),
    functions: [...helperFunctions(), ...definitions],
  });
}

/** A kernel whose names and directives are valid, with all that compiling it needs. The syntax tree is not needed. */
interface CheckedKernel {
  /** The properties that the kernel's declaration states. */
  readonly properties: Pick<CompiledKernel, "name" | "parameters" | "parameterBytes"> & LaunchBounds;
  readonly line: number;
  readonly resolved: ResolvedKernel;
  /** Whether the local memory of the kernel and of all functions that it calls is known to be within its limit. */
  readonly hasSmallFrames: boolean;
  readonly constants: ModuleImage["constants"];
  readonly addressed: ModuleScope["addressed"];
  readonly instructions: InstructionSet;
  readonly isOptimized: boolean;
  readonly options: EmitOptions;
}

function checkKernel(
  kernel: FunctionDeclaration,
  { module, isOptimized, options }: {
    readonly module: ModuleScope;
    readonly isOptimized: boolean;
    readonly options: EmitOptions;
  },
): CheckedKernel {
  const { name, parameters, parameterBytes } = kernelSignature(kernel);
  const bounds = launchBounds(kernel, module.dialect);
  const resolved = resolveKernel(kernel, {
    parameters: parameters.map(({ offset, byteLength }, index): Variable => {
      const { name, elementCount, type } = kernel.parameters[index]!;
      const elementBytes = elementCount === undefined ? undefined : (scalarTypes.get(type)?.bits ?? 0) / 8;
      return { kind: "variable", name, space: "param", offset, byteLength, elementBytes };
    }),
    module,
  });
  limit(kernel, { space: "shared", bytes: resolved.sharedBytes, maximum: maximumSharedBytes });
  const frames = [resolved.kernel, ...resolved.callees.values()].reduce((sum, { frameBytes }) => sum + frameBytes, 0);
  return {
    properties: { name, parameters, parameterBytes, ...bounds },
    line: kernel.line,
    resolved,
    hasSmallFrames: frames + options.stackBytes + maximumPassedBytes <= maximumLocalBytes,
    constants: module.image.constants,
    addressed: module.addressed,
    instructions: module.instructions,
    isOptimized,
    options,
  };
}

/** @param functionIndex the index that the kernel's first WebAssembly function will have in its module */
function compileKernel(
  { properties, line, resolved: written, constants, addressed, instructions, isOptimized, options }: CheckedKernel,
  functionIndex: number,
): { compiled: CompiledKernel; definitions: readonly FunctionDefinition[] } {
  const hasChecks = options.kernelChecks.size > 0;
  const resolved = isOptimized ? joinProducts(contractKernel(written, instructions), { hasChecks }) : written;
  const { name, parameterBytes } = properties;
  const { sharedBytes } = resolved;
  try {
    const flows = kernelFlows(resolved);
    const variables = hasChecks ? namedVariables(resolved) : [];
    const bodies = [resolved.kernel, ...resolved.callees.values()];
    const isCooperative = bodies.some((body) => instructionsOf(body).some(findsWorkspace));
    const found = {
      findsWorkspace: isCooperative,
      usesHeap: bodies.some((body) => instructionsOf(body).some(usesHeap)),
      hasLoops: [...flows.values()].some(({ analysis }) => analysis.loops.length > 0),
    };
    const usesClusters = bodies.some((body) => instructionsOf(body).some(usesClusterMemory));
    const common = { ...properties, ...found, sharedBytes };
    const compileFor = (points: LockstepPoints, functionIndex: number) => {
      const context: GeneratorContext = {
        parameterBytes,
        constants,
        addressed,
        flows,
        lockstep: points.instructions,
        functionIndex,
        options,
      };
      const { definitions, ...generated } = generateKernel(name, resolved, context);
      limit({ name, line }, { space: "local", bytes: generated.localBytes, maximum: maximumLocalBytes });
      for (const definition of definitions) checkSize({ name, line }, definition);
      const codeBytes = definitions.reduce((sum, { code }) => sum + code.length, 0);
      // The code for gangs is larger than the code for single threads, so it would exceed the limit as well.
      const isTooLargeForGangs = definitions.length > 1 && codeBytes > maximumGangBytes;
      const lockstepPointCount = points.instructions.size;
      // If the order of the accesses of a warp's lanes matters, all lanes must be in one gang.
      const compileGangs = (width: GangWidth) =>
        options.gangs === false || isTooLargeForGangs || usesClusters || (lockstepPointCount > 0 && width < 32)
          ? undefined
          : compileGangKernel(resolved, { ...context, width });
      const compileForLaunch = (rules: LaunchRules): KernelModule | undefined => {
        const others = points.under(rules);
        if (others === points) return undefined;
        const { definitions, compiled } = compileFor(others, helperCount);
        return { wasm: encodeKernels(definitions), kernel: compiled };
      };
      const compiled: CompiledKernel = {
        ...common,
        ...generated,
        lockstepPointCount,
        ordersAccesses: points.hasAccesses,
        pointerParameters: points.parameters,
        variables,
        compileForLaunch,
        compileGangs,
      };
      return { definitions, compiled };
    };
    return compileFor(findLockstepPoints(resolved, { flows, addressed }), functionIndex);
  } catch (error) {
    if (!(error instanceof StructureError)) throw error;
    throw new UnsupportedPtxError(line, `cannot compile "${name}": ${error.message}`);
  }
}

/** Returns the variables that a kernel and the functions that it may call refer to. */
function namedVariables({ kernel, callees }: ResolvedKernel): Variable[] {
  const found = new Set<Variable>();
  for (const called of [kernel, ...callees.values()]) {
    for (const instruction of instructionsOf(called)) {
      for (const operand of instruction.operands) {
        const named = operand.kind === "sum" ? operand.variable : operand.kind === "address" ? operand.base : operand;
        if (named?.kind === "variable") found.add(named);
      }
    }
  }
  return [...found];
}

function compileGangKernel(
  resolved: ResolvedKernel,
  context: Omit<GangContext, "indices" | "sharedFunctions">,
): GangKernel | undefined {
  const indices = { resumable: helperCount, scalarExit: helperCount + 1, reconverge: helperCount + 2 };
  const sharedFunctions = new KernelFunctions(helperCount + 3);
  const generated = unlessTooDeep(() =>
    generateGangKernel("threads", resolved, { ...context, indices, sharedFunctions })
  );
  if (generated === undefined) return undefined;
  const { resumable, scalarExit, reconverge, gangs, ...others } = generated;
  const { localBytes, savedBytes, frameBytes, resumeLines, suspensions } = resumable;
  const definitions = [...resumable.definitions, scalarExit, reconverge, ...sharedFunctions.definitions, gangs];
  if (!definitions.every(isOfPossibleSize)) return undefined;
  if (gangs.code.length > maximumGangBytes && resumeLines.length > manyDivergencePoints) return undefined;
  const wasm = encodeKernels(definitions);
  return { wasm, width: context.width, localBytes, savedBytes, frameBytes, resumeLines, suspensions, ...others };
}

/** Returns the result of `generate`. Undefined if the control flow nests too deeply for structured code. */
function unlessTooDeep<Generated>(generate: () => Generated): Generated | undefined {
  try {
    return generate();
  } catch (error) {
    if (error instanceof StructureError) return undefined;
    throw error;
  }
}

type NamedLine = Pick<FunctionDeclaration, "name" | "line">;

/** Advice for the error if a kernel is too large. */
const wayOut = "unroll its loops less (#pragma unroll 1), or make several kernels of it";

/** Throws if a compiled kernel exceeds an engine's limits. */
function checkSize({ name, line }: NamedLine, { type, locals, code }: FunctionDefinition): void {
  const count = type.parameters.length + locals.length;
  if (count > maximumFunctionLocals) {
    throw new UnsupportedPtxError(
      line,
      `cannot compile "${name}": with its registers it needs ${count} locals, and engines allow at most ${maximumFunctionLocals}; ${wayOut}`,
    );
  }
  if (code.length > maximumFunctionBytes) {
    throw new UnsupportedPtxError(
      line,
      `cannot compile "${name}": it is ${code.length} bytes of WebAssembly, and engines allow at most ${maximumFunctionBytes}; ${wayOut}`,
    );
  }
}

function limit(
  { name, line }: NamedLine,
  { space, bytes, maximum }: { space: string; bytes: number; maximum: number },
): void {
  if (bytes <= maximum) return;
  throw new PtxError(
    line,
    `cannot compile "${name}": it has ${bytes} bytes of .${space} variables, and at most ${maximum} are allowed`,
  );
}
