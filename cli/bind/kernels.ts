/**
 * Lists the kernels of PTX, with their declarations in the source.
 *
 * @module
 */
import { type KernelParameter, kernelSignature } from "../../src/ptx/kernel_signature.ts";
import { parseKernelHeads } from "../../src/ptx/parsing/parser.ts";
import { readKernelParameters, type SourceKernel } from "./dwarf/kernel_parameters.ts";
import { byteLengthOfType, type CType } from "./dwarf/types.ts";
import { isIdentifier, isReserved } from "./identifiers.ts";

/** A kernel of a module. */
export interface BoundKernel {
  /** The name of the kernel in the PTX. */
  readonly name: string;
  readonly parameters: readonly BoundParameter[];
  /** The declaration in the source. Undefined if there is no matching debug information. */
  readonly source: SourceKernel | undefined;
}

/** A parameter of a kernel. */
export interface BoundParameter {
  readonly name: string;
  /** The declaration in the PTX. */
  readonly ptx: KernelParameter;
  /** The type in the source. Undefined if there is no matching debug information. */
  readonly type: CType | undefined;
}

/**
 * Returns the kernels in PTX.
 *
 * @param debugPtx the PTX of the same kernels with debug information
 * @throws {PtxError} If the PTX cannot be read
 */
export function kernelsOf(ptx: string, debugPtx: string): { kernels: BoundKernel[]; warning: string | undefined } {
  const { sources, warning } = sourcesOf(debugPtx);
  const kernels = parseKernelHeads(ptx).map((head): BoundKernel => {
    const { name, parameters } = kernelSignature(head);
    const source = matching(sources.get(name), parameters);
    const names = source?.parameters.map(({ name }) => name) ??
      // Compilers number the parameters in PTX instead of naming them: `distinctNames` replaces such names.
      head.parameters.map((parameter) => parameter.name.startsWith(`${name}_param_`) ? undefined : parameter.name);
    const distinct = distinctNames(names);
    return {
      name,
      source,
      parameters: parameters.map((parameter, index) => ({
        name: distinct[index]!,
        ptx: parameter,
        type: source?.parameters[index]?.type,
      })),
    };
  });
  return { kernels, warning };
}

/**
 * Returns the declarations in debug information. If the debug information cannot be read, returns a warning and no
 * declarations.
 */
function sourcesOf(debugPtx: string): { sources: ReadonlyMap<string, SourceKernel>; warning: string | undefined } {
  try {
    return { sources: readKernelParameters(debugPtx), warning: undefined };
  } catch (error) {
    const reason = (error as Error).message;
    return { sources: new Map(), warning: `Cannot read the debugging information: ${reason}; parameters are numbered` };
  }
}

/**
 * Returns `source` if its parameters have the same sizes as those of the kernel in the PTX, and undefined otherwise.
 */
function matching(source: SourceKernel | undefined, parameters: readonly KernelParameter[]): SourceKernel | undefined {
  if (source?.parameters.length !== parameters.length) return undefined;
  const isSame = source.parameters.every(({ type }, index) => byteLengthOfType(type) === parameters[index]!.byteLength);
  return isSame ? source : undefined;
}

/**
 * Returns unique identifiers for parameters. Parameters whose name is missing, unusable or a duplicate get a number.
 */
function distinctNames(names: readonly (string | undefined)[]): string[] {
  const taken = new Set(names);
  const seen = new Set<string>();
  return names.map((name, index) => {
    const isUsable = name !== undefined && isIdentifier(name);
    if (isUsable && !isReserved(name) && !seen.has(name)) {
      seen.add(name);
      return name;
    }
    let free = !isUsable ? `parameter${index}` : isReserved(name) ? `${name}_` : `${name}${index}`;
    while (taken.has(free) || seen.has(free)) free += "_";
    seen.add(free);
    return free;
  });
}
