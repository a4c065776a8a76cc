/**
 * The error for a source that the compiler rejects, parsed from the compiler's messages, with advice on missing
 * headers: NVRTC has no standard library.
 *
 * @module
 */
import { nameErrors } from "../support/errors.ts";
import { escapeControlsInLines } from "../support/printing.ts";
import type { CompilerInput } from "./compilers.ts";

/** Thrown if the compiler rejects a source. The message is the compiler's first error, with the source line. */
export class CompileError extends Error {
  /** Always `"CompileError"`. */
  declare readonly name: "CompileError";
  /** All messages of the compiler, as it wrote them. */
  readonly log: string;
  /** The file of the first error: the source's name, or that of a header. */
  readonly file: string;
  /** The 1-based line of the first error; 0 if the compiler reports none. */
  readonly line: number;
  /** The 1-based column of the first error, in UTF-16 code units; undefined if the compiler reports no column. */
  readonly column: number | undefined;

  static {
    nameErrors(this, "CompileError", ["file", "line", "column", "log"]);
  }

  /** Creates the error for a source that a compiler has rejected. */
  constructor(
    message: string,
    { log, file, line, column }: { log: string; file: string; line: number; column?: number | undefined },
  ) {
    super(escapeControlsInLines(message));
    this.log = log;
    this.file = file;
    this.line = line;
    this.column = column;
  }
}

/** An error or a warning, as written by a compiler. */
interface Diagnostic {
  readonly file: string;
  readonly line: number;
  readonly column: number | undefined;
  readonly message: string;
  /** The source line as the compiler quotes it. */
  readonly quoted: string | undefined;
  /** Whether the column refers to the quoted line, in which macros may have been expanded. */
  readonly isPreprocessed: boolean;
}

/** Matches `kernel.cu(4): error: ...`, the format of NVRTC and nvcc; some errors have a number. */
const nvidiaError = /^(.+?)\((\d+)\): (?:catastrophic |fatal |internal )?error(?: #\d+(?:-D)?)?: (.*)$/;
/** Matches `kernel.cu:4:12: error: ...`, the format of clang, and of the host compiler that nvcc runs. */
const clangError = /^(.+?):(\d+):(?:(\d+):)? (?:fatal )?error: (.*)$/;
/**
 * NVRTC's name for the file of name expressions, which has one per line from the second line on, in an unspecified
 * order.
 */
export const nameExpressionFile = "__nv_name_map";
const nameExpressionPragma = /#pragma nv_mangled_name (.*)$/;
/** The number of columns by which NVRTC and nvcc indent a source line. */
const nvidiaIndentation = 2;

/**
 * Returns the error that a compiler's messages describe.
 *
 * @param options.columnsAreBytes Whether a caret's column counts bytes of the line's UTF-8, as in NVRTC's messages. In
 *   nvcc's messages, it counts characters. Defaults to false. A column that the compiler prints as a number always
 *   counts bytes.
 */
export function compileError(
  log: string,
  input: Pick<CompilerInput, "name" | "source" | "headers" | "nameExpressions">,
  { columnsAreBytes = false }: { columnsAreBytes?: boolean } = {},
): CompileError {
  const lines = log.split("\n");
  const errors = lines.flatMap((line, index) => isError(line) ? [index] : []);
  const [first] = errors;
  if (first === undefined) {
    const said = lines.find((line) => /\berror\b/i.test(line)) ?? lines.find((line) => line.trim() !== "");
    const message = `${input.name}: ${said?.trim() ?? "the compiler gives no reason"}`;
    return new CompileError(message, { log, file: input.name, line: 0 });
  }
  const { file, line, column: written, message, quoted, isPreprocessed } = diagnosticAt(lines, first);
  if (file === nameExpressionFile) {
    const expression = nameExpressionPragma.exec(quoted ?? "")?.[1]?.trim() ?? input.nameExpressions[line - 2] ?? "";
    const said = `${input.name}: error in the name expression "${expression}": ${message}`;
    return new CompileError(said, { log, file: input.name, line: 0 });
  }
  const text = file === input.name ? input.source : input.headers.get(file);
  const original = text?.split("\n")[line - 1]?.trimEnd();
  const source = original ?? quoted;
  const quotedColumn = written === undefined || quoted === undefined
    ? written
    : columnInString(quoted, written, isPreprocessed && !columnsAreBytes ? () => 1 : utf8Length);
  const column = original !== undefined && isPreprocessed
    ? columnBeforePreprocessing(original, quoted!, quotedColumn!)
    : quotedColumn;
  const place = column === undefined ? `${file}:${line}` : `${file}:${line}:${column}`;
  const count = errors.length - 1;
  const more = count === 0 ? "" : `\n${count} more ${count === 1 ? "error" : "errors"}: see the error's log`;
  const advice = adviceOnMissingHeader(message);
  const what = advice === undefined ? message : `${message}; ${advice}`;
  const said = `${place}: error: ${what}${source === undefined ? "" : excerpt(source, line, column)}${more}`;
  return new CompileError(said, { log, file, line, column });
}

/**
 * Converts a column in characters or bytes to a column in UTF-16 code units, in which a character above U+FFFF counts
 * as two.
 */
function columnInString(line: string, column: number, widthOf: (character: string) => number): number {
  let [index, width] = [0, 0];
  for (const character of line) {
    if (width >= column - 1) break;
    width += widthOf(character);
    index += character.length;
  }
  return index + Math.max(0, column - 1 - width) + 1;
}

function utf8Length(character: string): number {
  const code = character.codePointAt(0)!;
  if (code < 0x80) return 1;
  if (code < 0x800) return 2;
  return code < 0x10000 ? 3 : 4;
}

/** Returns whether a compiler's messages contain an error in the program. */
export function hasErrors(log: string): boolean {
  return log.split("\n").some((line) => isError(line) || line.startsWith("At end of source: error"));
}

function isError(line: string): boolean {
  return nvidiaError.test(line) || clangError.test(line);
}

/**
 * Returns the column in the source line for a column in the quoted line, which the compiler has preprocessed: macros
 * are expanded, comments removed, and spaces changed. Returns undefined if the column cannot be determined.
 */
function columnBeforePreprocessing(source: string, quoted: string, column: number): number | undefined {
  if (quoted.trimEnd() === source) return column;
  const significant = (line: string) => {
    // Comments are replaced by spaces, so that columns are preserved.
    const code = line.replaceAll(/\/\*.*?\*\/|\/\/.*$/g, (comment) => " ".repeat(comment.length));
    return Array.from(code.matchAll(/\S/g), ({ index, 0: character }) => ({ index, character }));
  };
  const [inSource, inQuoted] = [significant(source), significant(quoted)];
  const at = inQuoted.findIndex(({ index }) => index >= column - 1);
  if (at < 0) return undefined;
  const isSame = (from: number, to: number, offset: number) =>
    inQuoted.slice(from, to).every(({ character }, i) => character === inSource[from + i + offset]?.character);
  // If no macro was expanded after the column, the ends of both lines are the same; if none was expanded before it, the
  // beginnings are the same.
  const offset = inSource.length - inQuoted.length;
  if (at + offset >= 0 && isSame(at, inQuoted.length, offset)) return inSource[at + offset]!.index + 1;
  if (isSame(0, at + 1, 0)) return inSource[at]!.index + 1;
  // Otherwise, the word at the column must occur the same number of times in both lines.
  const [word] = /^[A-Za-z_]\w*/.exec(quoted.slice(column - 1)) ?? [];
  if (word === undefined) return undefined;
  const places = (line: string) =>
    Array.from(line.matchAll(new RegExp(`\\b${word}\\b`, "g")), ({ index }) => index + 1);
  const [before, after] = [places(source), places(quoted)];
  return before.length === after.length ? before[after.indexOf(column)] : undefined;
}

function diagnosticAt(lines: readonly string[], index: number): Diagnostic {
  const header = lines[index]!;
  const nvidia = nvidiaError.exec(header);
  const [, file = "", line = "", column, clangMessage = ""] = nvidia === null ? clangError.exec(header)! : [];
  if (nvidia === null) {
    const quoted = /^\s*\d+ \| (.*)$/.exec(lines[index + 1] ?? "")?.[1] ?? lines[index + 1];
    return {
      file,
      line: Number(line),
      column: column && Number(column) || undefined,
      message: clangMessage,
      quoted,
      isPreprocessed: false,
    };
  }
  // The lines after the first contain the rest of the message, the source line, and a caret below the column.
  const end = lines.findIndex((each, at) => at > index && each.trim() === "");
  const rest = lines.slice(index + 1, end < 0 ? undefined : end);
  const caret = rest.findIndex((each) => /^\s*\^\s*$/.test(each));
  const message = [nvidia[3]!, ...rest.slice(0, Math.max(0, caret - 1)).map((each) => each.trim())].join("\n");
  return {
    file: nvidia[1]!,
    line: Number(nvidia[2]),
    column: caret < 0 ? undefined : rest[caret]!.indexOf("^") + 1 - nvidiaIndentation,
    message,
    quoted: caret < 1 ? undefined : rest[caret - 1]!.slice(nvidiaIndentation),
    isPreprocessed: caret >= 1,
  };
}

/** Returns the source line with its number, and a caret below the column. */
function excerpt(source: string, line: number, column: number | undefined): string {
  const gutter = `  ${line} | `;
  if (column === undefined) return `\n${gutter}${source}`;
  // Tabs are kept, so that the caret is below the column regardless of the tab width.
  const before = source.slice(0, column - 1).replaceAll(/[^\t]/g, " ");
  return `\n${gutter}${source}\n${" ".repeat(gutter.length - 2)}| ${before}^`;
}

/**
 * Matches NVRTC's `cannot open source file "x.h"`, clang's `'x.h' file not found`, and the message of gcc, which nvcc
 * runs.
 */
const missingHeader =
  /(?:could not|cannot) open source file "(?<nvrtc>[^"]+)"|'(?<clang>[^']+)' file not found|^(?<gcc>[^:]+): No such file/;
/** Matches headers whose functions are available in device code without an include. */
const declaredAlready = /^(?:c?(?:assert|math|stdio|stdlib|string|time)(?:\.h)?|(?:host|device)_[a-z_]+\.h)$/;
/** The C headers that libcu++ provides, without the prefix `c` of the C++ names: `float` stands for `<cfloat>`. */
const headersOfC = ["float", "limits", "stddef", "stdint"];
/** Other C++ headers that libcu++ has. */
const headersOfCpp = [
  "algorithm",
  "array",
  "atomic",
  "barrier",
  "bit",
  "chrono",
  "complex",
  "concepts",
  "functional",
  "initializer_list",
  "iterator",
  "latch",
  "numeric",
  "optional",
  "ranges",
  "ratio",
  "semaphore",
  "span",
  "tuple",
  "type_traits",
  "utility",
  "variant",
  "version",
];
/** C++ headers that do not exist for device code. */
const hostOnly = [
  "any",
  "deque",
  "exception",
  "filesystem",
  "format",
  "fstream",
  "future",
  "iostream",
  "list",
  "map",
  "mutex",
  "queue",
  "random",
  "regex",
  "set",
  "sstream",
  "stack",
  "stdexcept",
  "string_view",
  "system_error",
  "thread",
  "unordered_map",
  "unordered_set",
  "vector",
];
/** Matches the names of CUDA's own headers, which are in the toolkit and in two of CUDA's Python packages. */
const headerOfCuda = /^(?:cuda|cooperative_groups|cccl|nv\/|cub\/|thrust\/|mma\.h|vector_)/;
/** Matches the names of cuRAND's headers, which are in the toolkit and in a Python package of their own. */
const headerOfRandom = /^curand/;

/** Returns advice on a header that a compiler's message reports as missing. Undefined for other messages. */
function adviceOnMissingHeader(message: string): string | undefined {
  const { nvrtc, clang, gcc } = missingHeader.exec(message)?.groups ?? {};
  const header = nvrtc ?? clang ?? gcc;
  if (header === undefined) return undefined;
  if (declaredAlready.test(header)) return "device code has these functions without it: omit the #include";
  const name = /^(?:c?([a-z]+)|([a-z]+)\.h)$/.exec(header);
  const base = name?.[1] ?? name?.[2] ?? "";
  if (headersOfC.includes(base)) return `the compiler has no standard library: include <cuda/std/c${base}>`;
  if (headersOfCpp.includes(header)) {
    return `the compiler has no standard library: include <cuda/std/${header}>, and use cuda::std`;
  }
  if (hostOnly.includes(header)) {
    return "device code has no such library: omit the #include, and use arrays of device memory";
  }
  if (headerOfRandom.test(header)) {
    return "cuRAND's headers come with CUDA's toolkit, which CUDA_HOME names, or from pip install nvidia-curand";
  }
  if (headerOfCuda.test(header)) {
    return "CUDA's headers come with its toolkit, which CUDA_HOME names, or from pip install nvidia-cuda-runtime " +
      "nvidia-cuda-cccl";
  }
  return "give it in headers, or its folder in includePaths";
}
