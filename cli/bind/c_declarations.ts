/**
 * Formats C++ declarations of kernels, for comments.
 *
 * @module
 */
import type { SourceKernel } from "./dwarf/kernel_parameters.ts";
import type { CType } from "./dwarf/types.ts";

/**
 * The maximum number of characters of a declaration in one line. Longer declarations are split into one line per
 * parameter.
 */
const maximumWidth = 110;

/** Returns the lines of a kernel's declaration: `void saxpy(int n, float a, const float* x, float* y);`. */
export function declarationOf(kernel: SourceKernel): string[] {
  const parameters = kernel.parameters.map(({ name = "", type }) => declare(type, name));
  const line = `void ${kernel.name}(${parameters.join(", ")});`;
  if (line.length <= maximumWidth) return [line];
  const last = parameters.length - 1;
  const lines = parameters.map((parameter, index) => `  ${parameter}${index === last ? "" : ","}`);
  return [`void ${kernel.name}(`, ...lines, ");"];
}

/** Returns a C++ declaration, such as `const float* x`, or the name of the type if `name` is empty. */
export function declare(type: CType, name: string): string {
  switch (type.kind) {
    case "const":
      return type.type.kind === "pointer"
        ? declare(type.type, joined("const", name))
        : `const ${declare(type.type, name)}`;
    case "pointer":
      return declarePointer(type.target(), { sign: type.isReference ? "&" : "*", name });
    case "array":
      return declare(type.element, name + type.lengths.map((length) => `[${length === 0 ? "" : length}]`).join(""));
    case "function":
      return `void ${name}(...)`;
    case "void":
      return joined("void", name);
    default:
      return joined(type.name === "" ? "unnamed" : type.name, name);
  }
}

function declarePointer(target: CType, { sign, name }: { sign: string; name: string }): string {
  if (target.kind === "array" || target.kind === "function") return declare(target, `(${sign}${name})`);
  return joined(declare(target, "") + sign, name);
}

function joined(first: string, second: string): string {
  return second === "" ? first : `${first} ${second}`;
}
