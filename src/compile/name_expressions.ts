/**
 * Name expressions, for compilers that have no such thing: a variable for each expression is initialized with the
 * address of what it names, so that templates are instantiated and the PTX has the name.
 *
 * @module
 */
import { compileError, nameExpressionFile } from "./compile_error.ts";
import type { CompilerInput } from "./compiler.ts";

const variable = "__poolpass_name_";

/** Declarations of a variable for each expression, to append to the source. */
export function nameDeclarations(expressions: readonly string[]): string {
  if (expressions.length === 0) return "";
  const declarations = expressions.map((expression, index) =>
    `extern "C" __device__ __attribute__((used)) const void* ${variable}${index} = (const void*)(${expression});`
  );
  // As in NVRTC's messages, the first expression is in the second line.
  return `\n#line 2 "${nameExpressionFile}"\n${declarations.join("\n")}\n`;
}

/** Takes the variables out of PTX, and returns it with what they name. */
export function takeNames(
  ptx: string,
  input: Pick<CompilerInput, "name" | "source" | "headers" | "nameExpressions">,
): { readonly ptx: string; readonly loweredNames: ReadonlyMap<string, string> } {
  const loweredNames = new Map<string, string>();
  if (input.nameExpressions.length === 0) return { ptx, loweredNames };
  const initializers = new Map(
    Array.from(ptx.matchAll(variableDirectives), ([, index, value]) => [Number(index), value!.trim()]),
  );
  const kernels = new Set(Array.from(ptx.matchAll(kernelDirectives), ([, kernel]) => kernel!));
  for (const [index, expression] of input.nameExpressions.entries()) {
    const value = initializers.get(index) ?? "";
    const symbol = /^generic\(([\w$]+)\)$/.exec(value)?.[1] ?? (kernels.has(value) ? value : undefined);
    if (symbol === undefined) {
      throw compileError(
        `${nameExpressionFile}(${index + 2}): error: the expression must be the address of a __global__ function or ` +
          "of a __device__ or __constant__ variable",
        input,
      );
    }
    loweredNames.set(expression, symbol);
  }
  return {
    ptx: ptx
      .replaceAll(variableDirectives, "")
      .replaceAll(variableAddresses, ".b64 0")
      // Kernels are declared for the variables' sake.
      .replaceAll(kernelDeclarations, ""),
    loweredNames,
  };
}

/** `.global .align 8 .u64 __poolpass_name_0 = generic(table);`, with a line for the linker before it in debug PTX. */
const variableDirectives = new RegExp(
  `^[ \\t]*\\.(?:visible\\s+)?[^\\n{}]*\\.u64\\s+${variable}(\\d+)(?:\\[1\\])?\\s*(?:=\\s*([^;]*))?;[^\\n]*\\n`,
  "gm",
);
/** Where debug information says where the variable is. */
const variableAddresses = new RegExp(`^\\.b64\\s+${variable}\\d+$`, "gm");
const kernelDirectives = /^[ \t]*(?:\.(?:visible|weak)\s+)?\.entry\s+([\w$]+)/gm;
const kernelDeclarations = /^[ \t]*(?:\.(?:visible|weak)\s+)?\.entry\s+[\w$]+\s*\([^)]*\)[^;{]*;[ \t]*\n/gm;
