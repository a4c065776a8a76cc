/**
 * Compiles PTX to WebAssembly.
 *
 * The stages, each a module of its own: text to syntax tree (`src/ptx/`), names resolved and instructions typed by the
 * one table of them (`typed_body.ts`, `instructions.ts`), a control-flow graph (`control_flow_graph.ts`) made reducible
 * (`reducible_loops.ts`) and structured (`structured_code.ts`), instructions written by what the table says
 * (`function_emitter.ts`, `*_instructions.ts`), and all of it as a binary (`wasm_encoder.ts`).
 *
 * The threads of a block run one after another, in a loop around the body of one thread, so instructions by which
 * threads wait for or see each other are refused. How they will fit in: a block of the graph that ends in a barrier ends
 * with a new kind of terminator, which saves the thread's live registers and the number of the barrier, and leaves; the
 * entry becomes a switch on that number, which restores the registers and goes on behind the barrier. A loop that
 * contains a barrier is thereby cut open, so that the graph stays reducible and inner loops stay loops. Around it, the
 * loop over threads runs again while some thread is not done.
 *
 * @module
 */
import { type KernelSignature, kernelSignature } from "../../ptx/kernel_signature.ts";
import { parsePtx } from "../../ptx/parser.ts";
import { type FunctionDeclaration, PtxError } from "../../ptx/syntax.ts";
import { generateKernel } from "./code_generator.ts";
import { helperFunctions, importedFunctions } from "./helper_functions.ts";
import { layOutImage, type ModuleImage, variablesByName } from "./module_image.ts";
import type { Variable } from "./names.ts";
import { StructureError } from "./structured_code.ts";
import { checkHeader } from "./supported_ptx.ts";
import { type ModuleScope, typeBody } from "./typed_body.ts";
import { encodeModule, type FunctionDefinition } from "./wasm_encoder.ts";

export { addressBase, faultKind } from "./addresses.ts";
export { hostFunctionImports } from "./host_functions.ts";
export { initializeImage, type ModuleImage, type ModuleVariable } from "./module_image.ts";
export { PtxVersionError } from "./supported_ptx.ts";

/** What PTX text was compiled to. */
export interface CompiledModule {
  /**
   * Imports `device.memory`, a shared memory of 4 GiB, `device.imageAddress`, an i64 that says where the module's
   * variables lie, and `device.fault(kind, address, line)`, which must throw. Exports for each kernel, under its name, a
   * function that takes 15 i32: the first and one past the last block in x, the block in y and z, the grid's size in x, y
   * and z, the block's, where in the memory the packed parameters, the block's shared memory, the threads' local memory
   * and the table of limits begin, and how many bytes the block's shared memory has: `sharedBytes` and what the launch
   * adds. It runs those blocks to their end.
   *
   * The table has 16 bits for every 512 bytes of memory: how many of the first of them the kernel may access.
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
  /** Of each thread. */
  readonly localBytes: number;
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
]);

/** Compiles one PTX module. Throws {@linkcode PtxError} naming the line for anything it does not know. */
export function compilePtx(text: string): CompiledModule {
  const { functions, variables: declarations } = parsePtx(text, checkHeader);
  const variables = variablesByName(declarations);
  const image = layOutImage(variables.values());
  const module = { image, variables, functions: new Set(functions.map(({ name }) => name)) };
  const kernels = new Map<string, CompiledKernel>();
  const definitions: FunctionDefinition[] = [];
  for (const kernel of functions) {
    if (kernel.kind !== "entry" || kernel.body === undefined) continue;
    if (kernels.has(kernel.name)) throw new PtxError(kernel.line, `cannot define the kernel "${kernel.name}" twice`);
    const { compiled, definition } = compileKernel(kernel, module);
    kernels.set(kernel.name, compiled);
    definitions.push(definition);
  }
  const wasm = encodeModule({
    memory: { module: "device", name: "memory", pages: memoryPages },
    globals: [{ module: "device", name: "imageAddress", valueType: "i64" }],
    imports: importedFunctions(),
    functions: [...helperFunctions(), ...definitions],
  });
  return { wasm, kernels, image };
}

function compileKernel(
  kernel: FunctionDeclaration,
  module: ModuleScope,
): { compiled: CompiledKernel; definition: FunctionDefinition } {
  const { name, parameters, parameterBytes } = kernelSignature(kernel);
  const threads = threadsPerBlock(kernel);
  const { items, sharedBytes, localBytes, usesDynamicShared } = typeBody(kernel, {
    parameters: parameters.map(({ offset, byteLength }, index): Variable => {
      return { kind: "variable", name: kernel.parameters[index]!.name, space: "param", offset, byteLength };
    }),
    module,
  });
  limit(kernel, { space: "shared", bytes: sharedBytes, maximum: maximumSharedBytes });
  limit(kernel, { space: "local", bytes: localBytes, maximum: maximumLocalBytes });
  try {
    const sizes = {
      parameters: parameterBytes,
      shared: usesDynamicShared ? undefined : sharedBytes,
      local: localBytes,
      constants: module.image.constants,
    };
    const definition = generateKernel(name, { items, sizes });
    checkSize(kernel, definition);
    return { compiled: { name, parameters, parameterBytes, ...threads, sharedBytes, localBytes }, definition };
  } catch (error) {
    if (error instanceof StructureError) throw new PtxError(kernel.line, `cannot compile "${name}": ${error.message}`);
    throw error;
  }
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
