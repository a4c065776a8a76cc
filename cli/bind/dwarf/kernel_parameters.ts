/**
 * Reads the parameters of kernels from debug information.
 *
 * @module
 */
import { attributes, tags } from "./constants.ts";
import { DwarfError } from "./bytes.ts";
import { DebugInfo, type Entry, labelAttribute, linkageNameOf, stringAttribute } from "./entries.ts";
import { readableName } from "./names.ts";
import { readDebugSections } from "./sections.ts";
import { type CType, TypeReader } from "./types.ts";

/** A C++ function, as declared in its source. */
export interface SourceKernel {
  /** The C++ name, such as `scale<float,3>`. */
  readonly name: string;
  readonly parameters: readonly SourceParameter[];
}

/** A parameter of a function. */
export interface SourceParameter {
  /** The name of the parameter. Undefined if it has none in the source. */
  readonly name: string | undefined;
  readonly type: CType;
}

/**
 * Returns the functions that the debug information in PTX describes, keyed by their names in the PTX.
 *
 * @throws {DwarfError} If the debugging information is malformed
 */
export function readKernelParameters(ptx: string): Map<string, SourceKernel> {
  // A shortcut, since most PTX has no debug information.
  if (!ptx.includes(".debug_info")) return new Map();
  const sections = readDebugSections(ptx);
  const info = new DebugInfo(sections);
  const types = new TypeReader(info);
  const kernels = new Map<string, SourceKernel>();
  for (const entry of info.withTag(tags.subprogram)) {
    const label = labelAttribute(entry, attributes.lowPc);
    const declaration = declarationOf(entry, info);
    const inPtx = (label === undefined ? undefined : sections.functionOfLabel.get(label) ?? label) ??
      linkageNameOf(declaration);
    if (inPtx === undefined) continue;
    const parameters = entry.children.filter(({ tag }) => tag === tags.formalParameter).map((parameter) => {
      const origin = declarationOf(parameter, info);
      return { name: stringAttribute(origin, attributes.name), type: types.typeOf(origin) };
    });
    kernels.set(inPtx, { name: readableName(stringAttribute(declaration, attributes.name) ?? inPtx), parameters });
  }
  types.readTargets();
  return kernels;
}

/**
 * Returns the entry that contains the name and the type of a function or parameter. If the function is also inlined
 * somewhere, compilers put its name and type in a separate entry.
 */
function declarationOf(entry: Entry, info: DebugInfo): Entry {
  let declaration = entry;
  for (let steps = 0; steps < 8; steps++) {
    const next = info.referred(declaration, attributes.abstractOrigin) ??
      info.referred(declaration, attributes.specification);
    if (next === undefined) return declaration;
    declaration = next;
  }
  throw new DwarfError(`the function at byte ${entry.offset} is declared by itself`);
}
