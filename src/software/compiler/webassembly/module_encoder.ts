import { ByteWriter, unlikelyBranchesOf } from "./code_writer.ts";
import { type LocalType, type ValueType, valueTypeCodes } from "./opcodes.ts";

/** The type of a function: its parameters and results. */
export interface FunctionType {
  readonly parameters: readonly ValueType[];
  readonly results: readonly ValueType[];
}

/** A function that a module defines. */
export interface FunctionDefinition {
  readonly type: FunctionType;
  /** The types of the function's locals, excluding its parameters. */
  readonly locals: readonly LocalType[];
  /** The encoded instructions of the function's body, without the final `end`. */
  readonly code: Uint8Array;
  readonly exportName?: string | undefined;
}

/** The maximum number of locals, including parameters, of a function in WebAssembly engines. */
export const maximumFunctionLocals = 50_000;
/** The maximum code size of a function in WebAssembly engines, in bytes. */
export const maximumFunctionBytes = 7_654_321;

/** Whether engines accept a function with this many locals and this much code. */
export function isOfPossibleSize({ type, locals, code }: FunctionDefinition): boolean {
  return type.parameters.length + locals.length <= maximumFunctionLocals && code.length <= maximumFunctionBytes;
}

/**
 * The contents of a module: an imported memory, imported globals, imported functions, and the functions that the module
 * defines. The indices of defined functions follow those of imported functions.
 */
export interface ModuleDefinition {
  readonly memory: { readonly module: string; readonly name: string; readonly pages: number };
  /** Immutable globals whose values are supplied when the module is instantiated. */
  readonly globals: readonly { readonly module: string; readonly name: string; readonly valueType: ValueType }[];
  readonly imports: readonly { readonly module: string; readonly name: string; readonly type: FunctionType }[];
  readonly functions: readonly FunctionDefinition[];
}

/** Encodes a module. The module's memory is shared and has a fixed size. */
export function encodeModule({ memory, globals, imports, functions }: ModuleDefinition): Uint8Array<ArrayBuffer> {
  const types: FunctionType[] = [...imports, ...functions].map(({ type }) => type);
  const out = new ByteWriter();
  out.bytes([0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00]);
  section(out, 1, types, (type, section) => {
    section.byte(0x60);
    valueTypes(section, type.parameters);
    valueTypes(section, type.results);
  });
  section(out, 2, [memory, ...globals, ...imports], (entry, section) => {
    section.name(entry.module);
    section.name(entry.name);
    if ("pages" in entry) {
      section.bytes([0x02, 0x03]);
      section.unsigned(entry.pages);
      section.unsigned(entry.pages);
    } else if ("valueType" in entry) {
      section.bytes([0x03, valueTypeCodes[entry.valueType], 0x00]);
    } else {
      section.byte(0x00);
      section.unsigned(imports.indexOf(entry));
    }
  });
  section(out, 3, functions, (_, section, index) => section.unsigned(imports.length + index));
  section(out, 7, functions.filter(({ exportName }) => exportName !== undefined), (definition, section) => {
    section.name(definition.exportName!);
    section.byte(0x00);
    section.unsigned(imports.length + functions.indexOf(definition));
  });
  const bodies = functions.map(functionBody);
  writeBranchHints(out, bodies.map(({ unlikely }, index) => ({ index: imports.length + index, unlikely })));
  section(out, 10, bodies, ({ body }, section) => section.sized(body));
  return out.finish();
}

/** Encodes a function's locals and code. Also returns the offsets of unlikely branches in the encoding. */
function functionBody({ locals, code }: FunctionDefinition): { body: ByteWriter; unlikely: readonly number[] } {
  const body = new ByteWriter();
  const runs = runLengths(locals);
  body.unsigned(runs.length);
  for (const [count, type] of runs) {
    body.unsigned(count);
    body.byte(valueTypeCodes[type]);
  }
  const begin = body.length;
  body.bytes(code);
  body.byte(0x0b);
  return { body, unlikely: unlikelyBranchesOf(code).map((offset) => begin + offset) };
}

/**
 * Writes the section with branch hints, which must precede the code section. Engines that do not support branch hints
 * ignore the section.
 *
 * @see https://github.com/WebAssembly/branch-hinting
 */
function writeBranchHints(
  out: ByteWriter,
  functions: readonly { readonly index: number; readonly unlikely: readonly number[] }[],
): void {
  const hinted = functions.filter(({ unlikely }) => unlikely.length > 0);
  if (hinted.length === 0) return;
  const content = new ByteWriter();
  content.name("metadata.code.branch_hint");
  content.unsigned(hinted.length);
  for (const { index, unlikely } of hinted) {
    content.unsigned(index);
    content.unsigned(unlikely.length);
    for (const offset of unlikely) {
      content.unsigned(offset);
      content.bytes([1, 0]);
    }
  }
  out.byte(0);
  out.sized(content);
}

/** Writes a section with a list of entries. */
function section<T>(
  out: ByteWriter,
  id: number,
  entries: readonly T[],
  write: (entry: T, section: ByteWriter, index: number) => void,
): void {
  const content = new ByteWriter();
  content.unsigned(entries.length);
  entries.forEach((entry, index) => write(entry, content, index));
  out.byte(id);
  out.sized(content);
}

function valueTypes(out: ByteWriter, types: readonly ValueType[]): void {
  out.unsigned(types.length);
  for (const type of types) out.byte(valueTypeCodes[type]);
}

/** Run-length encodes a list of types. */
function runLengths(types: readonly LocalType[]): [count: number, type: LocalType][] {
  const runs: [number, LocalType][] = [];
  for (const type of types) {
    const last = runs.at(-1);
    if (last?.[1] === type) last[0]++;
    else runs.push([1, type]);
  }
  return runs;
}
