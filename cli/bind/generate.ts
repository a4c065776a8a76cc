/**
 * Generates the module for a source text, without reading or writing files.
 *
 * @module
 */
import type { CompileOptions } from "../../mod.ts";
import type { Compile } from "./compile.ts";
import { type BoundKernel, kernelsOf } from "./kernels.ts";
import { moduleSource } from "./module_source.ts";
import { forOldDrivers, withoutBuild } from "./stable_ptx.ts";

/** The oldest architecture that the compilers of CUDA 13 support. */
const oldestArchitecture = "compute_75";

/** The options for generating a module. */
export interface GenerateOptions {
  /** The file name of the source. It is PTX if the name ends with `.ptx`, else CUDA C++. */
  readonly file: string;
  /** The command that regenerates the module, which is printed in the module's header. */
  readonly command: string;
  readonly importFrom: string;
  /** The options for compiling CUDA C++. */
  readonly compileOptions: CompileOptions;
  readonly compile: Compile;
}

/** A generated module. */
export interface GeneratedModule {
  readonly source: string;
  readonly ptx: string;
  readonly kernelNames: readonly string[];
  /** The warnings of the compiler; empty if there are none. */
  readonly log: string;
}

/** The PTX of a source file, and further data for the generated module. */
interface Program {
  readonly ptx: string;
  /** The PTX of the same kernels with debug information. */
  readonly debugPtx: string;
  /** How the PTX was compiled, as printed at the end of the first line of the module's header. */
  readonly origin: string;
  /** Maps the name expressions of kernels to their names in the PTX. */
  readonly loweredNames: ReadonlyMap<string, string>;
  readonly log: string;
}

/**
 * Generates the module for CUDA C++ or PTX.
 *
 * @throws {CompileError} If the compiler rejects the source
 * @throws {PtxError} If the PTX cannot be read
 */
export function generate(text: string, options: GenerateOptions): GeneratedModule {
  const { file, command, importFrom } = options;
  const { ptx, debugPtx, origin, loweredNames, log } = file.endsWith(".ptx")
    ? givenProgram(text, options)
    : compiledProgram(text, options);
  const { kernels, warning } = kernelsOf(ptx, debugPtx);
  if (kernels.length === 0) {
    throw new Error(
      `Cannot bind ${file}: it has no kernels; a kernel is a __global__ function, and a template is instantiated by ` +
        '--name-expression "scale<float>"',
    );
  }
  return {
    source: moduleSource({
      file,
      origin: `Generated from ${file} by \`${command}\`${origin}.`,
      ptx,
      kernels,
      names: namesOf(kernels, loweredNames),
      importFrom,
    }),
    ptx,
    kernelNames: kernels.map(({ name, source }) => source?.name ?? name),
    log: [log.trimEnd(), warning === undefined ? "" : `${file}: ${warning}`].filter((line) => line !== "").join("\n"),
  };
}

function givenProgram(ptx: string, { file }: GenerateOptions): Program {
  if (!/^\s*\.version\b/m.test(ptx)) throw new Error(`Cannot bind ${file}: it is not the text of PTX`);
  return { ptx, debugPtx: ptx, origin: "", loweredNames: new Map(), log: "" };
}

function compiledProgram(source: string, { file, compile, compileOptions }: GenerateOptions): Program {
  const { architecture = oldestArchitecture } = compileOptions;
  const options = { ...compileOptions, architecture, name: file };
  const { ptx, log, compiler, loweredNames } = compile(source, options);
  // Compile a second time, only for the debug information. `__grid_constant__` is removed, because the debug
  // information would omit unused parameters that are declared with it.
  const ordinary = `#undef __grid_constant__\n#define __grid_constant__\n#line 1 "${file}"\n${source}`;
  let [debugPtx, warning] = ["", ""];
  try {
    debugPtx = compile(ordinary, { ...options, debug: true }).ptx;
  } catch (error) {
    // A compiler flag from the command line may be incompatible with debug information.
    warning = `${file}: Cannot compile for a debugger: ${(error as Error).message}; parameters are numbered`;
  }
  return {
    ptx: forOldDrivers(withoutBuild(ptx)),
    debugPtx,
    origin: `, compiled by ${compiler}`,
    loweredNames,
    log: log + warning,
  };
}

/**
 * Maps the C++ names of kernels to their names in the PTX. Omits names that are the same in both, and names of
 * overloaded kernels.
 */
function namesOf(kernels: readonly BoundKernel[], loweredNames: ReadonlyMap<string, string>): Map<string, string> {
  const names = new Map<string, string>();
  const overloaded = new Set<string>();
  for (const { name, source } of kernels) {
    if (source === undefined || source.name === name || [...loweredNames.values()].includes(name)) continue;
    if (names.has(source.name)) overloaded.add(source.name);
    names.set(source.name, name);
  }
  for (const name of overloaded) names.delete(name);
  const isKernel = new Set(kernels.map(({ name }) => name));
  for (const [name, lowered] of loweredNames) if (isKernel.has(lowered)) names.set(name, lowered);
  return names;
}
