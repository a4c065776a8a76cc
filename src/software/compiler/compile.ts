/**
 * Compiles PTX to WebAssembly, in these stages:
 *
 * 1. `src/ptx/` parses text into a syntax tree.
 * 2. `typing/` resolves names, lays out variables, and finds each instruction's row in the one table of instructions.
 *    `src/ptx/instructions/` has the instruction's syntax, its section in the manual and what may be assumed of it, and
 *    `instructions/` what it compiles to. The types of operands are checked later, while code is emitted.
 * 3. `contraction/` replaces products and sums with fused multiply-adds where a driver's compiler does.
 * 4. `control_flow/` builds a graph of basic blocks, once for each function. `src/ptx/analysis/` finds out what the
 *    next stages ask of it, and each that changes it takes a copy.
 * 5. `lockstep/` finds where the lanes of a warp must wait for each other, as those of a GPU's advance together.
 * 6. `codegen/` emits each instruction as its row says, with calls of `helpers/` where WebAssembly has no instruction.
 * 7. `simd/` compiles a second version of the kernel, which runs gangs of threads, if the kernel allows it.
 * 8. `webassembly/` encodes the result.
 *
 * A kernel and the functions that it calls become one WebAssembly function. Threads are coroutines: at a suspend point,
 * a thread saves its live registers and leaves the function, which begins with a switch on where the thread resumes
 * (`codegen/code_generator.ts`). Every stage takes time in proportion to the kernel's length, or a logarithm more:
 * `deno task bench scaling` measures it. `../abi/` has what compiled kernels agree on with their caller.
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
import type { EmitOptions } from "./codegen/function_emitter.ts";
import { helperCount, helperFunctions, importedFunctions } from "./helpers/helper_functions.ts";
import { instructionSet } from "./instructions/instructions.ts";
import type { InstructionSet } from "./typing/find_form.ts";
import type { ModuleImage } from "./typing/module_image.ts";
import { type ModuleScope, moduleScope } from "./typing/module_scope.ts";
import type { CallSite, Suspension } from "../abi/launch_record.ts";
import { findLockstepPoints, type LockstepPoints } from "./lockstep/lockstep_points.ts";
import type { LaunchRules } from "../../ptx/analysis/address_forms.ts";
import { type GangContext, generateGangKernel } from "./simd/gang_generator.ts";
import type { GangWidth } from "./simd/gang_layout.ts";
import type { Variable } from "../../ptx/instructions/resolved_instruction.ts";
import { StructureError } from "./control_flow/structured_code.ts";
import { scalarTypes } from "../../ptx/instructions/scalar_types.ts";
import { checkHeader } from "./typing/supported_ptx.ts";
import { UnsupportedPtxError } from "../../ptx/instruction_support.ts";
import { instructionsOf, type ResolvedKernel, resolveKernel } from "./typing/resolver.ts";
import { encodeModule, type FunctionDefinition } from "./webassembly/module_encoder.ts";

export { hostFunctionImports } from "./helpers/helper_functions.ts";
export { type ImageVariable, initializeImage, type ModuleImage } from "./typing/module_image.ts";
export { hasRowsOfWarps, imageMemory } from "./lockstep/warp_rules.ts";
export type { LaunchRules } from "../../ptx/analysis/address_forms.ts";
export { PtxVersionError } from "./typing/supported_ptx.ts";
export { UnsupportedPtxError } from "../../ptx/instruction_support.ts";

/** A compiled PTX module. */
export interface CompiledModule {
  /**
   * The WebAssembly module. It imports from `device`: `memory`, a shared memory of 4 GiB; `imageAddress`, an i64 with
   * the address of the module's variables; and the functions of `hostFunctionImports`. For each kernel it exports a
   * function of the kernel's name, which takes the offset of a launch record (see `../abi/launch_record.ts`) and runs the
   * blocks or threads that the record names.
   */
  readonly wasm: Uint8Array<ArrayBuffer>;
  readonly kernels: ReadonlyMap<string, CompiledKernel>;
  /** The architecture of the target: 90 for sm_90. */
  readonly ptxVersion: number;
  /** The other kernels, with what the device does not support of each, or of a function that it may call. */
  readonly refusals: ReadonlyMap<string, UnsupportedPtxError>;
  /** The line of the source that a line of the PTX was compiled from. */
  readonly lineInfo: LineInfo;
  /** The module's variables, to be placed in memory at a multiple of 65536 before the module is instantiated. */
  readonly image: ModuleImage;
}

/** A compiled kernel, and what its caller has to know to run it. */
export interface CompiledKernel {
  readonly name: string;
  readonly parameters: KernelSignature["parameters"];
  readonly parameterBytes: number;
  /** Undefined if the kernel states no maximum. */
  readonly maxThreadsPerBlock: number | undefined;
  /** The block size that every launch must have, in x, y and z. Undefined if any size will do. */
  readonly requiredThreads: readonly [x: number, y: number, z: number] | undefined;
  /** The static shared memory, in bytes. Dynamic shared memory begins behind it. */
  readonly sharedBytes: number;
  /**
   * The local memory and the space for saved registers of each thread, in bytes. Those of successive threads are
   * adjacent.
   */
  readonly localBytes: number;
  readonly savedBytes: number;
  /** The bytes of local memory that the kernel's own frame takes. */
  readonly frameBytes: number;
  /** The bytes of its local memory that a thread may access. */
  readonly accessibleLocalBytes: number;
  /** The lines where threads resume, by the `resumeIndex` of their records. Some are not known. */
  readonly resumeLines: readonly number[];
  /** Whether threads may release what they have done to others, other than by barriers. Known with the check `race`. */
  readonly hasReleases: boolean;
  /** Whether registers may be uninitialized for another reason than loads. Known with that check only. */
  readonly mayReadUnset: boolean;
  /** The calls of functions, by the `resumeIndex` of the callers' records. */
  readonly callSites: ReadonlyMap<number, CallSite>;
  /**
   * The places where threads may be suspended. Such a kernel runs one block at a time, and runs the block's threads
   * again and again until all have exited. Undefined if every thread runs to its end; then all threads use the first
   * one's local memory.
   */
  readonly suspensions: readonly Suspension[] | undefined;
  /** The number of places where the lanes of a warp wait for each other because their accesses have an order. */
  readonly lockstepPointCount: number;
  /**
   * Whether it stores to memory that other lanes of a warp may access. If so, launches with blocks other than rows of
   * whole warps may need other places, and so may those in which two of the parameters, given by their offsets, point
   * into the same memory.
   */
  readonly ordersAccesses: boolean;
  readonly pointerParameters: readonly number[];
  /** The variables that its code, and that of the functions that it may call, names. */
  readonly variables: readonly Variable[];
  /** Compiles the kernel again for such a launch. Undefined if it needs the same places. */
  compileForLaunch(rules: LaunchRules): KernelForLaunch | undefined;
  /**
   * Compiles the kernel again, to run gangs of threads. Undefined if gangs cannot run it or would not be profitable.
   */
  compileGangs(width: GangWidth): GangKernel | undefined;
}

/** A kernel compiled again, with the WebAssembly module that exports it. */
export interface KernelForLaunch {
  readonly wasm: Uint8Array<ArrayBuffer>;
  readonly kernel: CompiledKernel;
}

/**
 * A kernel that runs gangs of threads. Its launches must have blocks whose x dimension is a multiple of the gang width.
 * See `gang_generator.ts`.
 */
export interface GangKernel {
  /**
   * The WebAssembly module, with the imports of {@linkcode CompiledModule}. It exports two functions. `gangs` runs the
   * blocks that the launch record names and returns the index of the block where it stopped. If that is not the end,
   * the threads of that block have been saved in thread records, and `threads` runs them to their end, as a kernel with
   * suspensions does.
   */
  readonly wasm: Uint8Array<ArrayBuffer>;
  /** Threads in a gang. */
  readonly width: GangWidth;
  /** How many of the registers in the innermost loops are held in vectors, each with one number for every member. */
  readonly vectorRegisters: number;
  /** How many of these have 64 bits. */
  readonly wideRegisters: number;
  /** The bytes of each gang's save area. */
  readonly gangBytes: number;
  /** Whether all gangs of a block exist at once. If not, they run one after another. */
  readonly hasBarriers: boolean;
  /** Whether gangs run a loop to its end although their members diverge. */
  readonly hasMaskedLoops: boolean;
  /** For each thread that has left its gang, as in {@linkcode CompiledKernel}. */
  readonly localBytes: number;
  readonly savedBytes: number;
  readonly frameBytes: number;
  readonly resumeLines: readonly number[];
  readonly suspensions: readonly Suspension[];
}

const memoryPages = 65536;
const maximumSharedBytes = 227 * 1024;
const maximumLocalBytes = 512 * 1024;
/** Engines' limits for one function: its locals, including parameters, and the bytes of its code. */
const maximumFunctionLocals = 50_000;
const maximumFunctionBytes = 7_654_321;
/** With more code for gangs that diverge in many places, a kernel runs thread by thread: engines took 7 GB for 5 MB. */
const maximumGangBytes = 3_000_000;
const manyDivergencePoints = 1000;
/** Directives on a kernel that affect its speed, or that the caller checks, but that do not change what it does. */
const knownDirectives: ReadonlySet<string> = new Set([
  "maxntid",
  "reqntid",
  "minnctapersm",
  "maxnreg",
  "pragma",
  "maxclusterrank",
]);

/** Directives on a kernel that runs in clusters of blocks. */
const clusterDirectives: ReadonlySet<string> = new Set([
  "reqnctapercluster",
  "explicitcluster",
  "blocksareclusters",
]);

/**
 * Compiles a PTX module, given as text or parsed.
 *
 * @param options `instructions` replaces the instructions of the software device
 * @throws {PtxError} naming the line, for anything that is not PTX: a GPU refuses the module, too
 */
export function compilePtx(
  source: string | PtxModule,
  { instructions = instructionSet, ...options }: Partial<EmitOptions> & { instructions?: InstructionSet } = {},
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
    ...options,
  };
  const kernels = new Map<string, CompiledKernel>();
  const refusals = new Map<string, UnsupportedPtxError>();
  const definitions: FunctionDefinition[] = [];
  for (const kernel of functions) {
    const { name, line } = kernel;
    if (kernel.kind !== "entry" || kernel.body === undefined) continue;
    if (kernels.has(name) || refusals.has(name)) throw new PtxError(line, `cannot define the kernel "${name}" twice`);
    try {
      const { compiled, definition } = compileKernel(kernel, { module, isOptimized, options: all });
      kernels.set(name, compiled);
      definitions.push(definition);
    } catch (error) {
      if (!(error instanceof UnsupportedPtxError)) throw error;
      refusals.set(name, error);
    }
  }
  return {
    wasm: encodeKernels(definitions),
    kernels,
    // checkHeader has checked the name, "sm_90a" for example.
    ptxVersion: Number(/\d+/.exec(target.names[0]!)![0]),
    refusals,
    image,
    lineInfo,
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

function compileKernel(
  kernel: FunctionDeclaration,
  { module, isOptimized, options }: { module: ModuleScope; isOptimized: boolean; options: EmitOptions },
): { compiled: CompiledKernel; definition: FunctionDefinition } {
  const { name, parameters, parameterBytes } = kernelSignature(kernel);
  const threads = threadsPerBlock(kernel);
  const written = resolveKernel(kernel, {
    parameters: parameters.map(({ offset, byteLength }, index): Variable => {
      const { name, elementCount, type } = kernel.parameters[index]!;
      const elementBytes = elementCount === undefined ? undefined : (scalarTypes.get(type)?.bits ?? 0) / 8;
      return { kind: "variable", name, space: "param", offset, byteLength, elementBytes };
    }),
    module,
  });
  const resolved = isOptimized ? contractKernel(written, module.instructions) : written;
  const { sharedBytes } = resolved;
  limit(kernel, { space: "shared", bytes: sharedBytes, maximum: maximumSharedBytes });
  try {
    const flows = kernelFlows(resolved);
    const variables = options.kernelChecks.size > 0 ? namedVariables(resolved) : [];
    const common = { name, parameters, parameterBytes, ...threads, sharedBytes };
    const compileFor = (points: LockstepPoints) => {
      const context: GeneratorContext = {
        parameterBytes,
        constants: module.image.constants,
        addressed: module.addressed,
        flows,
        lockstep: points.instructions,
        options,
      };
      const { definition, ...generated } = generateKernel(name, resolved, context);
      limit(kernel, { space: "local", bytes: generated.localBytes, maximum: maximumLocalBytes });
      checkSize(kernel, definition);
      const lockstepPointCount = points.instructions.size;
      // The lanes of a warp must be in one gang if their accesses have an order.
      const compileGangs = (width: GangWidth) =>
        options.gangs === false || (lockstepPointCount > 0 && width < 32)
          ? undefined
          : compileGangKernel(resolved, { ...context, width });
      const compileForLaunch = (rules: LaunchRules): KernelForLaunch | undefined => {
        const others = points.under(rules);
        if (others === points) return undefined;
        const { definition, compiled } = compileFor(others);
        return { wasm: encodeKernels([definition]), kernel: compiled };
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
      return { definition, compiled };
    };
    const { definition, compiled } = compileFor(findLockstepPoints(resolved, { flows, addressed: module.addressed }));
    return { compiled, definition };
  } catch (error) {
    if (!(error instanceof StructureError)) throw error;
    throw new UnsupportedPtxError(kernel.line, `cannot compile "${name}": ${error.message}`);
  }
}

/** The variables that a kernel names, and the functions that it may call. */
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

function compileGangKernel(resolved: ResolvedKernel, context: Omit<GangContext, "indices">): GangKernel | undefined {
  const indices = { resumable: helperCount, scalarExit: helperCount + 1, reconverge: helperCount + 2 };
  const generated = unlessTooDeep(() => generateGangKernel("threads", resolved, { ...context, indices }));
  if (generated === undefined) return undefined;
  const { resumable, scalarExit, reconverge, gangs, ...others } = generated;
  const { localBytes, savedBytes, frameBytes, resumeLines, suspensions, definition } = resumable;
  const definitions = [definition, scalarExit, reconverge, gangs];
  if (!definitions.every(isOfPossibleSize)) return undefined;
  if (gangs.code.length > maximumGangBytes && resumeLines.length > manyDivergencePoints) return undefined;
  const wasm = encodeKernels(definitions);
  return { wasm, width: context.width, localBytes, savedBytes, frameBytes, resumeLines, suspensions, ...others };
}

/** Undefined if the control flow nests too deeply for structured code. */
function unlessTooDeep<Generated>(generate: () => Generated): Generated | undefined {
  try {
    return generate();
  } catch (error) {
    if (error instanceof StructureError) return undefined;
    throw error;
  }
}

function isOfPossibleSize({ type, locals, code }: FunctionDefinition): boolean {
  return type.parameters.length + locals.length <= maximumFunctionLocals && code.length <= maximumFunctionBytes;
}

function threadsPerBlock(
  { directives }: FunctionDeclaration,
): Pick<CompiledKernel, "maxThreadsPerBlock" | "requiredThreads"> {
  let maxThreadsPerBlock: number | undefined;
  let requiredThreads: CompiledKernel["requiredThreads"];
  for (const { name, values, line } of directives) {
    if (clusterDirectives.has(name)) {
      throw new UnsupportedPtxError(line, `cannot use the directive ".${name}": there are no clusters of blocks`);
    }
    if (!knownDirectives.has(name)) throw new PtxError(line, `cannot use the directive ".${name}": it is not known`);
    if (name !== "maxntid" && name !== "reqntid") continue;
    if (values.length < 1 || values.length > 3 || values.includes(0)) {
      throw new PtxError(line, `cannot use the directive ".${name}": one to three numbers above 0 must follow`);
    }
    if (maxThreadsPerBlock !== undefined) {
      throw new PtxError(
        line,
        `cannot use the directive ".${name}": another directive states the threads of a block already`,
      );
    }
    const [x = 1, y = 1, z = 1] = values;
    maxThreadsPerBlock = x * y * z;
    if (name === "reqntid") requiredThreads = [x, y, z];
  }
  return { maxThreadsPerBlock, requiredThreads };
}

/** Throws if a compiled kernel exceeds an engine's limits. */
function checkSize({ name, line }: FunctionDeclaration, { type, locals, code }: FunctionDefinition): void {
  const count = type.parameters.length + locals.length;
  if (count > maximumFunctionLocals) {
    throw new UnsupportedPtxError(
      line,
      `cannot compile "${name}": with its registers it needs ${count} locals, and engines allow at most ${maximumFunctionLocals}`,
    );
  }
  if (code.length > maximumFunctionBytes) {
    throw new UnsupportedPtxError(
      line,
      `cannot compile "${name}": it is ${code.length} bytes of WebAssembly, and engines allow at most ${maximumFunctionBytes}`,
    );
  }
}

function limit(
  { name, line }: FunctionDeclaration,
  { space, bytes, maximum }: { space: string; bytes: number; maximum: number },
): void {
  if (bytes <= maximum) return;
  throw new PtxError(
    line,
    `cannot compile "${name}": it has ${bytes} bytes of .${space} variables, and at most ${maximum} are allowed`,
  );
}
