/**
 * Generates the source of the TypeScript module for PTX.
 *
 * @module
 */
import { argumentType } from "./argument_types.ts";
import { declarationOf } from "./c_declarations.ts";
import { type CType, type EnumType, type StructType, withoutNames } from "./dwarf/types.ts";
import { Identifiers, isIdentifier, propertyName } from "./identifiers.ts";
import type { BoundKernel } from "./kernels.ts";
import { ptxTypeOf, vectorAlignment } from "./scalars.ts";
import { type Field, type StructConstant, StructConstants } from "./struct_constants.ts";

/** The maximum number of characters of a generated line, as in the `deno fmt` settings of this repository. */
const lineWidth = 120;

/** The contents of a generated module. */
export interface ModuleContent {
  /** The file that the PTX comes from: `saxpy.cu`. */
  readonly file: string;
  /** A line for the header that describes how the module was generated. */
  readonly origin: string;
  readonly ptx: string;
  readonly kernels: readonly BoundKernel[];
  /** Maps the C++ names of kernels to their names in the PTX. */
  readonly names: ReadonlyMap<string, string>;
  /** The specifier by which the module imports poolpass. */
  readonly importFrom: string;
}

/** Returns the source of a module that exports PTX with the types of its kernels. */
export function moduleSource({ file, origin, ptx, kernels, names, importFrom }: ModuleContent): string {
  const { constants, enums, isNeeded } = declarationsFor(kernels);
  const types = kernels.map(({ parameters }) =>
    parameters.map((parameter) => ({
      name: parameter.name,
      type: argumentType(parameter, (type) => isNeeded(type) ? constants.constantFor(type)?.name : undefined),
    }))
  );
  const structs = constants.all;
  const used = types.flat().map(({ type }) => type).join(" ");
  const imports = [
    /\bPointer\b/.test(used) ? "Pointer" : "",
    "Ptx",
    ...structs.length > 0 ? ["Struct", "struct"] : [],
    /\bStructArgument\b/.test(used) ? "StructArgument" : "",
  ].filter((name) => name !== "");
  const parts = [
    `// ${oneLine(origin)} Do not edit.`,
    importOf(imports, importFrom),
    ...enums.map(({ name, type }) => enumSource(name, type)),
    ...structs.map(structSource),
    kernelsSource(file, kernels, types),
    ...names.size === 0 ? [] : [namesSource(names)],
    `/** PTX of the kernels in \`${inComment(file)}\`. */\nexport const ptx: Ptx<Kernels> = \`${
      escapeTemplate(ptx)
    }\` as Ptx<Kernels>;`,
  ];
  return `${parts.join("\n\n")}\n`;
}

/** Collects the constants to declare for the structs and enums that kernels take by value or by pointer. */
function declarationsFor(
  kernels: readonly BoundKernel[],
): { constants: StructConstants; enums: { name: string; type: EnumType }[]; isNeeded: (type: StructType) => boolean } {
  const identifiers = new Identifiers();
  const alignments = new Map<StructType, number>();
  const all = kernels.flatMap(({ parameters }) => parameters);
  for (const { ptx, type } of all) {
    const plain = type === undefined ? undefined : withoutNames(type);
    if (plain?.kind === "struct") alignments.set(plain, ptx.alignment);
  }
  const constants = new StructConstants(identifiers, alignments);
  const enums = new Map<EnumType, string>();
  // A kernel parameter of a CUDA vector type needs no constant, because a typed array represents it. A struct member of
  // a vector type does need one.
  const isNeeded = (type: StructType) => vectorAlignment(type) === undefined && ptxTypeOf(type) === undefined;
  for (const { type } of all) {
    const plain = type === undefined ? undefined : elementOf(type);
    if (plain?.kind === "enum" && isWritable(plain)) {
      if (!enums.has(plain)) enums.set(plain, identifiers.take(plain.name));
    } else if (plain?.kind === "struct" && isNeeded(plain)) constants.constantFor(plain);
  }
  return { constants, enums: Array.from(enums, ([type, name]) => ({ name, type })), isNeeded };
}

/**
 * Removes one level of pointer from a type, then one level of array: returns `T` for `T*`, for `T[4]`, and for a
 * pointer to `T[4]`.
 */
function elementOf(type: CType): CType {
  let plain = withoutNames(type);
  if (plain.kind === "pointer") plain = withoutNames(plain.target());
  if (plain.kind === "array") plain = withoutNames(plain.element);
  return plain;
}

function isWritable({ name, values }: EnumType): boolean {
  const isSimple = values.every(({ name, value }) => isIdentifier(name) && Number.isSafeInteger(value));
  return name !== "" && values.length > 0 && isSimple;
}

function importOf(names: readonly string[], from: string): string {
  const isValue = names.includes("struct");
  const listed = names.map((name) => isValue && name !== "struct" ? `type ${name}` : name).join(", ");
  return `import ${isValue ? "" : "type "}{ ${listed} } from ${JSON.stringify(from)};`;
}

function enumSource(name: string, { values, name: source }: EnumType): string {
  const lines = values.map(({ name, value }) => `  ${name}: ${value},\n`).join("");
  return `/** \`enum ${inComment(source)}\` */\nexport const ${name} = {\n${lines}} as const;`;
}

function structSource({ name, type, fields, byteLength, alignment, givenAlignment }: StructConstant): string {
  const types = fields.map((field) => `  readonly ${propertyName(field.name)}: ${fieldType(field)};\n`).join("");
  const values = fields.map((field) => {
    const comment = field.comment === undefined ? "" : `  // ${oneLine(field.comment)}\n`;
    return `${comment}  ${propertyName(field.name)}: ${fieldValue(field)},\n`;
  }).join("");
  const options = givenAlignment === undefined ? "" : `, { alignment: ${givenAlignment} }`;
  const bytes = `${byteLength} ${byteLength === 1 ? "byte" : "bytes"}`;
  const comment = `/** \`${inComment(type.name)}\`: ${bytes}, aligned to ${alignment} */`;
  if (fields.length === 0) {
    return `${comment}\nexport const ${name}: Struct<Record<never, never>> = struct({}${options});`;
  }
  return `${comment}\nexport const ${name}: Struct<{\n${types}}> = struct({\n${values}}${options});`;
}

function fieldType({ type, count }: Field): string {
  const element = type.startsWith('"') ? type : `typeof ${type}`;
  return count === undefined ? element : `readonly [${element}, ${count}]`;
}

function fieldValue({ type, count }: Field): string {
  return count === undefined ? type : `[${type}, ${count}]`;
}

function kernelsSource(
  file: string,
  kernels: readonly BoundKernel[],
  types: readonly (readonly { readonly name: string; readonly type: string }[])[],
): string {
  const members = kernels.map((kernel, index) => {
    const comment = kernel.source === undefined ? "" : commentOf(declarationOf(kernel.source));
    const parameters = types[index]!.map(({ name, type }) => `${name}: ${type}`);
    const name = propertyName(kernel.name);
    const line = `  ${name}: [${parameters.join(", ")}];`;
    if (line.length <= lineWidth) return `${comment}${line}\n`;
    return `${comment}  ${name}: [\n${parameters.map((parameter) => `    ${parameter},\n`).join("")}  ];\n`;
  });
  const comment = `/** The parameters of the kernels in \`${inComment(file)}\`. */`;
  return `${comment}\nexport interface Kernels {\n${members.join("")}}`;
}

/** Returns a JSDoc comment that contains lines of C++, with the indentation of a comment in an interface. */
function commentOf(lines: readonly string[]): string {
  const [only] = lines;
  if (lines.length === 1 && only!.length <= lineWidth - 12) return `  /** \`${inComment(only!)}\` */\n`;
  return `  /**\n   * \`\`\`c\n${lines.map((line) => `   * ${inComment(line)}\n`).join("")}   * \`\`\`\n   */\n`;
}

function namesSource(names: ReadonlyMap<string, string>): string {
  const lines = Array.from(names, ([name, inPtx]) => `  ${propertyName(name)}: ${JSON.stringify(inPtx)},\n`);
  return `/** The kernels' names in the PTX by their names in C++. */\nexport const names = {\n${
    lines.join("")
  }} as const;`;
}

/** Escapes text for a template literal: its special characters, and control characters that editors may alter. */
function escapeTemplate(text: string): string {
  return text.replaceAll(/[\\`]|\$(?=\{)/g, "\\$&")
    // deno-lint-ignore no-control-regex
    .replaceAll(/[\x00-\x08\x0b-\x1f\x7f\ufeff]/g, (character) => {
      return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
    });
}

function inComment(text: string): string {
  return oneLine(text).replaceAll("*/", "*\\/").replaceAll("`", "'");
}

function oneLine(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replaceAll(/[\x00-\x1f\x7f\u2028\u2029]+/g, " ");
}
