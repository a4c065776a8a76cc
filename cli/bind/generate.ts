/**
 * The module for a source, without reading or writing files.
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

/** How to generate a module. */
export interface GenerateOptions {
  /** The name of the source, which says by its end whether it is PTX. */
  readonly file: string;
  /** The command that generates the module again. */
  readonly command: string;
  readonly importFrom: string;
  /** How CUDA C++ is compiled. */
  readonly compileOptions: CompileOptions;
  readonly compile: Compile;
}

/** A generated module. */
export interface GeneratedModule {
  readonly source: string;
  readonly ptx: string;
  readonly kernelNames: readonly string[];
  /** Warnings; empty if there are none. */
  readonly log: string;
}

/** PTX, with what is needed to describe it. */
interface Program {
  readonly ptx: string;
  /** The same kernels, compiled for a debugger. */
  readonly debugPtx: string;
  readonly origin: string;
  readonly loweredNames: ReadonlyMap<string, string>;
  readonly log: string;
}

/**
 * The module for CUDA C++ or PTX.
 *
 * @throws {CompileError} If the compiler refuses the source
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
  // Only its debugging information is read, which omits parameters that are grid constants and that the kernel ignores.
  const ordinary = `#undef __grid_constant__\n#define __grid_constant__\n#line 1 "${file}"\n${source}`;
  let [debugPtx, warning] = ["", ""];
  try {
    debugPtx = compile(ordinary, { ...options, debug: true }).ptx;
  } catch (error) {
    // A flag may exclude it.
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

/** The names of kernels in PTX by those in C++, as far as these are different and are one kernel's. */
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
