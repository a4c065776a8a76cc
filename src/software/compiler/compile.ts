/**
 * Compiles PTX to WebAssembly.
 *
 * The stages: text to syntax tree (`src/ptx/`); names resolved and instructions resolved (`typing/`) by the one table of them
 * (`instructions.ts`), which says of each what may be written, what it means and where the manual defines it; a graph of
 * blocks, made reducible and structured (`control_flow/`); instructions written by what the table says
 * (`function_emitter.ts`, `instructions/`), with functions to call where WebAssembly has no instruction (`helpers/`); and
 * all of it as a binary (`webassembly/`).
 *
 * The kernel and the functions that it calls become one function of WebAssembly, in which threads can be suspended
 * (`code_generator.ts`), and where it allows it a second one that runs many threads at once (`gangs/`). What they and
 * their caller tell each other is in `launch_context.ts`.
 *
 * @module
 */
import { type KernelSignature, kernelSignature } from "../../ptx/kernel_signature.ts";
import { parsePtx } from "../../ptx/parser.ts";
import { type FunctionDeclaration, PtxError } from "../../ptx/syntax.ts";
import { generateKernel, type GeneratorContext } from "./codegen/code_generator.ts";
import { hasFusedMultiplyAdd } from "./webassembly/engine_features.ts";
import type { CompileOptions } from "./codegen/function_emitter.ts";
import { helperCount, helperFunctions, importedFunctions } from "./helpers/helper_functions.ts";
import { instructionSet } from "./instructions/instructions.ts";
import type { InstructionSet } from "./typing/instruction_set.ts";
import { addressedFunctions, functionsByName } from "./typing/module_functions.ts";
import { layOutImage, type ModuleImage, variablesByName } from "./typing/module_image.ts";
import type { Suspension } from "./launch_context.ts";
import { type GangContext, generateGangKernel } from "./simd/gang_generator.ts";
import type { GangWidth } from "./simd/gang_layout.ts";
import type { Variable } from "./typing/names.ts";
import { StructureError } from "./control_flow/structured_code.ts";
import { checkHeader } from "./typing/supported_ptx.ts";
import { type ModuleScope, type ResolvedKernel, resolveKernel } from "./typing/resolver.ts";
import { encodeModule, type FunctionDefinition } from "./webassembly/module_encoder.ts";

export { addressBase, faultKind } from "./addresses.ts";
export { hostFunctionImports } from "./helpers/host_functions.ts";
export { type ImageVariable, initializeImage, type ModuleImage } from "./typing/module_image.ts";
export { PtxVersionError } from "./typing/supported_ptx.ts";

/** What PTX text was compiled to. */
export interface CompiledModule {
  /**
   * Imports from `device` the `memory`, a shared memory of 4 GiB, `imageAddress`, an i64 that says where the module's
   * variables lie, and the functions that `hostFunctionImports` gives. Exports for each kernel, under its name, a function
   * that takes where in the memory the launch's record begins: see `launch_context.ts`. It runs the blocks or the threads
   * that the record names.
   */
  readonly wasm: Uint8Array<ArrayBuffer>;
  readonly kernels: ReadonlyMap<string, CompiledKernel>;
  /** The module's variables: to be placed in the memory at a multiple of 65536, before the module is instantiated. */
  readonly image: ModuleImage;
}

/** What is known of a compiled kernel. */
export interface CompiledKernel {
  readonly name: string;
  readonly parameters: KernelSignature["parameters"];
  readonly parameterBytes: number;
  /** Undefined where the kernel does not say. */
  readonly maxThreadsPerBlock: number | undefined;
  /** The block that it must be launched with, in x, y and z; undefined where any will do. */
  readonly requiredThreads: readonly [x: number, y: number, z: number] | undefined;
  /** Without what a launch adds, which begins here. */
  readonly sharedBytes: number;
  /** Of each thread: where its local memory and its saved registers lie, one thread's behind the other's. */
  readonly localBytes: number;
  readonly savedBytes: number;
  /** Of the local memory, what the kernel's own frame takes. */
  readonly frameBytes: number;
  /**
   * Where threads may be suspended: then the kernel is run block by block, its threads again and again until all have
   * exited. Undefined where each thread runs to its end, and all use the first one's local memory.
   */
  readonly suspensions: readonly Suspension[] | undefined;
  /** Compiles the kernel once more, to run gangs of threads; undefined where it cannot, or would hardly gain by it. */
  compileGangs(width: GangWidth): GangKernel | undefined;
}

/** A kernel that runs threads in gangs, for launches whose blocks are whole gangs along x: see `gang_generator.ts`. */
export interface GangKernel {
  /**
   * Imports the same. Exports `gangs`, which runs the blocks that the launch's record names, from the first to one past the
   * last, and returns the one at which it has stopped. Where that is not the end, the threads of that block have records,
   * and are to be run to their end by `threads`, which is to them what a kernel is whose threads may be suspended.
   */
  readonly wasm: Uint8Array<ArrayBuffer>;
  /** Threads of a gang. */
  readonly width: GangWidth;
  /** How many registers lie in vectors, as many for each as hold a number for each thread, in the innermost loops. */
  readonly vectorRegisters: number;
  /** What is to be saved of each gang. */
  readonly gangBytes: number;
  /** Whether all gangs of a block are there at once, not one after another. */
  readonly hasBarriers: boolean;
  /** Of each thread that is in no gang any more: as of a {@linkcode CompiledKernel}. */
  readonly localBytes: number;
  readonly savedBytes: number;
  readonly frameBytes: number;
  readonly suspensions: readonly Suspension[];
}

const memoryPages = 65536;
const maximumSharedBytes = 227 * 1024;
const maximumLocalBytes = 512 * 1024;
/** Locals of a function, parameters among them, and bytes of its code: engines take no more. */
const maximumFunctionLocals = 50_000;
const maximumFunctionBytes = 7_654_321;
/** Directives on a kernel that change how fast it runs, or what the caller checks, but not what it does. */
const knownDirectives: ReadonlySet<string> = new Set([
  "maxntid",
  "reqntid",
  "minnctapersm",
  "maxnctapersm",
  "maxnreg",
  "pragma",
  "noreturn",
]);

/**
 * Compiles one PTX module. Throws {@linkcode PtxError} naming the line for anything it does not know.
 *
 * @param options `instructions`: those that the module may consist of, in place of the software device's own
 */
export function compilePtx(
  text: string,
  { instructions = instructionSet, ...options }: Partial<CompileOptions> & { instructions?: InstructionSet } = {},
): CompiledModule {
  const { functions, variables: declarations, aliases } = parsePtx(text, checkHeader);
  const variables = variablesByName(declarations);
  const names = functionsByName(functions, aliases);
  const image = layOutImage(variables.values(), names);
  const addressed = addressedFunctions({ declarations: functions, variables: declarations }, {
    functions: names,
    instructions,
  });
  const module = { image, variables, functions: names, addressed, instructions };
  const all: CompileOptions = {
    boundsChecks: true,
    fusedMultiplyAdd: hasFusedMultiplyAdd(),
    gangs: true,
    ...options,
  };
  const kernels = new Map<string, CompiledKernel>();
  const definitions: FunctionDefinition[] = [];
  for (const kernel of functions) {
    if (kernel.kind !== "entry" || kernel.body === undefined) continue;
    if (kernels.has(kernel.name)) throw new PtxError(kernel.line, `cannot define the kernel "${kernel.name}" twice`);
    const { compiled, definition } = compileKernel(kernel, { module, options: all });
    kernels.set(kernel.name, compiled);
    definitions.push(definition);
  }
  return { wasm: encodeKernels(definitions), kernels, image };
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
  { module, options }: { module: ModuleScope; options: CompileOptions },
): { compiled: CompiledKernel; definition: FunctionDefinition } {
  const { name, parameters, parameterBytes } = kernelSignature(kernel);
  const threads = threadsPerBlock(kernel);
  const resolved = resolveKernel(kernel, {
    parameters: parameters.map(({ offset, byteLength }, index): Variable => {
      return { kind: "variable", name: kernel.parameters[index]!.name, space: "param", offset, byteLength };
    }),
    module,
  });
  const { sharedBytes } = resolved;
  limit(kernel, { space: "shared", bytes: sharedBytes, maximum: maximumSharedBytes });
  try {
    const context: GeneratorContext = {
      parameterBytes,
      constants: module.image.constants,
      addressed: module.addressed,
      options,
    };
    const { definition, ...generated } = generateKernel(name, resolved, context);
    limit(kernel, { space: "local", bytes: generated.localBytes, maximum: maximumLocalBytes });
    checkSize(kernel, definition);
    const compileGangs = (width: GangWidth) =>
      options.gangs === false ? undefined : compileGangKernel(resolved, { ...context, width });
    const compiled = { name, parameters, parameterBytes, ...threads, sharedBytes, ...generated, compileGangs };
    return { compiled, definition };
  } catch (error) {
    if (error instanceof StructureError) throw new PtxError(kernel.line, `cannot compile "${name}": ${error.message}`);
    throw error;
  }
}

function compileGangKernel(resolved: ResolvedKernel, context: Omit<GangContext, "indices">): GangKernel | undefined {
  const indices = { resumable: helperCount, scalarExit: helperCount + 1, reconverge: helperCount + 2 };
  const generated = generateGangKernel("threads", resolved, { ...context, indices });
  if (generated === undefined) return undefined;
  const { resumable, scalarExit, reconverge, gangs, ...others } = generated;
  const { localBytes, savedBytes, frameBytes, suspensions, definition } = resumable;
  const definitions = [definition, scalarExit, reconverge, gangs];
  if (!definitions.every(isOfPossibleSize)) return undefined;
  const wasm = encodeKernels(definitions);
  return { wasm, width: context.width, localBytes, savedBytes, frameBytes, suspensions, ...others };
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
    if (!knownDirectives.has(name)) throw new PtxError(line, `cannot take the directive ".${name}": it is not known`);
    if (name !== "maxntid" && name !== "reqntid") continue;
    if (values.length < 1 || values.length > 3 || values.includes(0)) {
      throw new PtxError(line, `cannot take the directive ".${name}": one to three numbers above 0 must follow`);
    }
    if (maxThreadsPerBlock !== undefined) {
      throw new PtxError(line, `cannot take the directive ".${name}": another has told the threads of a block already`);
    }
    const [x = 1, y = 1, z = 1] = values;
    maxThreadsPerBlock = x * y * z;
    if (name === "reqntid") requiredThreads = [x, y, z];
  }
  return { maxThreadsPerBlock, requiredThreads };
}

/** What a compiled kernel is too large for can only be told when all of it is there. */
function checkSize({ name, line }: FunctionDeclaration, { type, locals, code }: FunctionDefinition): void {
  const count = type.parameters.length + locals.length;
  if (count > maximumFunctionLocals) {
    throw new PtxError(
      line,
      `cannot compile "${name}": with its registers it needs ${count} locals, ${maximumFunctionLocals} at most are possible`,
    );
  }
  if (code.length > maximumFunctionBytes) {
    throw new PtxError(
      line,
      `cannot compile "${name}": it is ${code.length} bytes of WebAssembly, ${maximumFunctionBytes} at most are possible`,
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
    `cannot compile "${name}": it has ${bytes} bytes of .${space} variables, ${maximum} at most are possible`,
  );
}
