/**
 * The options for compiling CUDA C++, and their checks.
 *
 * @module
 */
import { isPtx } from "../ptx/image_kind.ts";
import { checkBoolean, checkOptions, type KnownOptions, shown, whatIs } from "../support/validation.ts";
import type { CompilerInput } from "./compilers.ts";
import { RangeError, TypeError } from "../support/program_errors.ts";

/** Options for compiling CUDA C++. */
export interface CompileOptions {
  /** The name of the source in messages. Defaults to `"kernel.cu"`. */
  name?: string;
  /** The contents of headers, by the names that `#include` uses: `{ "twice.h": "..." }`. */
  headers?: Readonly<Record<string, string>>;
  /** Folders in which to search for headers. CUDA's own headers are found without this option. */
  includePaths?: readonly string[];
  /** Macros and their values. The value `true` defines a macro as 1, and `false` as 0. */
  defines?: Readonly<Record<string, string | number | boolean>>;
  /** The virtual architecture, such as `"compute_90"`. `CudaDevice.compile` defaults to the device's own. */
  architecture?: string;
  /**
   * Whether a multiplication and an addition may be fused into one operation, which rounds only once. Defaults to true.
   */
  fusedMultiplyAdd?: boolean;
  /**
   * Whether to generate line information, so that errors and profilers can map PTX instructions to source lines.
   * Defaults to true.
   */
  lineInfo?: boolean;
  /** Whether to compile for a debugger, which turns optimizations off. Defaults to false. */
  debug?: boolean;
  /**
   * C++ names of kernels, such as `"scale<float>"`, and of variables, such as `"&table"`. The compiler instantiates the
   * templates among them, and the module's `kernel` and `getGlobal` accept these names.
   */
  nameExpressions?: readonly string[];
  /** Flags that are passed to the compiler unchanged: `["--maxrregcount=32"]`, for NVRTC and nvcc. */
  flags?: readonly string[];
}

const compileOptions: KnownOptions<CompileOptions> = {
  action: "compile",
  names: {
    name: true,
    headers: true,
    includePaths: true,
    defines: true,
    architecture: true,
    fusedMultiplyAdd: true,
    lineInfo: true,
    debug: true,
    nameExpressions: true,
    flags: true,
  },
  instead: {
    include: "give includePaths",
    includes: "give headers, or includePaths",
    arch: "give architecture",
    options: "give flags",
    macros: "give defines",
    fmad: "give fusedMultiplyAdd",
  },
};

const defaultName = "kernel.cu";
const identifier = /^[A-Za-z_]\w*$/;

/** The input for a compiler, except that the architecture may still depend on the device and the compiler. */
export type CheckedProgram = Omit<CompilerInput, "architecture"> & { readonly architecture: string | undefined };

/** Checks a source and its options. */
export function checkProgram(source: string, options: CompileOptions): CheckedProgram {
  checkOptions(options, compileOptions);
  checkSource(source);
  const {
    name = defaultName,
    headers = {},
    includePaths = [],
    defines = {},
    architecture,
    fusedMultiplyAdd = true,
    lineInfo = true,
    debug = false,
    nameExpressions = [],
    flags = [],
  } = options;
  checkText(name, "the name of a source");
  if (name === "") throw new RangeError('Cannot use "" as the name of a source: it must not be empty');
  if (/[\n\r"\\]/.test(name)) {
    throw new RangeError(
      `Cannot use ${shown(name)} as the name of a source: it must be a name that #include could use`,
    );
  }
  if (name.startsWith("-")) {
    throw new RangeError(`Cannot use ${shown(name)} as the name of a source: a compiler would take it for an option`);
  }
  checkBoolean(fusedMultiplyAdd, "fusedMultiplyAdd");
  checkBoolean(lineInfo, "lineInfo");
  checkBoolean(debug, "debug");
  if (architecture !== undefined) checkArchitecture(architecture);
  const expressions = textsOf(nameExpressions, "nameExpressions", "a C++ name");
  const broken = expressions.find((expression) => /[\n\r]/.test(expression));
  if (broken !== undefined) {
    throw new RangeError(`Cannot use ${shown(broken)} as a C++ name of nameExpressions: it must be a single line`);
  }
  return {
    source: withoutMark(source),
    name,
    headers: new Map(
      entriesOf(headers, "headers").map(([name, text]) => {
        checkText(name, "the name of a header");
        checkText(text, `the header ${shown(name)}`);
        return [name, withoutMark(text)];
      }),
    ),
    includePaths: textsOf(includePaths, "includePaths", "a folder"),
    defines: new Map(entriesOf(defines, "defines").map(([name, value]) => [name, definitionOf(name, value)])),
    architecture,
    fusedMultiplyAdd,
    lineInfo,
    debug,
    nameExpressions: [...new Set(expressions)],
    flags: textsOf(flags, "flags", "a flag"),
  };
}

/** Throws unless a value is CUDA C++, as far as that can be determined without compiling it. */
function checkSource(source: unknown): asserts source is string {
  if (typeof source !== "string") {
    const decode = source instanceof Uint8Array ? "; decode it with new TextDecoder().decode(bytes)" : "";
    throw new TypeError(`Cannot compile ${whatIs(source)}: the source is a string of CUDA C++${decode}`);
  }
  if (source.includes("\0")) throw new RangeError("Cannot compile a source that contains a NUL character");
  if (/^[^\n(){};]*\.(cu|cuh|c|cc|cpp|h)$/i.test(source)) {
    throw new TypeError(
      `Cannot compile ${shown(source)}: it is a path; read the file first, and pass its text and { name: ${
        shown(source)
      } }`,
    );
  }
  if (isPtx(source)) {
    throw new TypeError("Cannot compile PTX as CUDA C++: it is compiled already; load it with loadModule");
  }
}

/** Removes the byte order mark that some editors prepend: NVRTC would reject it, and nvcc ignores it. */
function withoutMark(text: string): string {
  return text.startsWith("\uFEFF") ? text.slice(1) : text;
}

function checkArchitecture(architecture: unknown): void {
  checkText(architecture, "an architecture");
  if (/^compute_\d{2,3}[af]?$/.test(architecture as string)) return;
  const [number] = /\d{2,3}[af]?$/.exec(String(architecture).replace(".", "")) ?? ["90"];
  throw new RangeError(
    `Cannot compile for the architecture ${
      shown(architecture)
    }: give a virtual architecture, such as "compute_${number}"`,
  );
}

function definitionOf(name: string, value: unknown): string {
  if (!identifier.test(name)) {
    throw new RangeError(`Cannot define the macro ${shown(name)}: its name must be a C++ identifier`);
  }
  if (typeof value === "boolean") return value ? "1" : "0";
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw new RangeError(
      `Cannot define the macro ${name} as ${value}: C++ has no such number; give its expression as a string`,
    );
  }
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (typeof value !== "string") {
    throw new TypeError(`Cannot define the macro ${name} as ${whatIs(value)}: give a string, a number or a boolean`);
  }
  if (/[\n\0]/.test(value)) throw new RangeError(`Cannot define the macro ${name}: its value must be a single line`);
  return value;
}

function checkText(value: unknown, what: string): asserts value is string {
  if (typeof value !== "string") throw new TypeError(`Cannot use ${whatIs(value)} as ${what}: it must be a string`);
  if (value.includes("\0")) throw new RangeError(`Cannot use ${shown(value)} as ${what}: it contains a NUL character`);
}

function textsOf(values: unknown, option: string, what: string): string[] {
  if (!Array.isArray(values)) {
    throw new TypeError(`Cannot use ${whatIs(values)} as ${option}: give an array of strings`);
  }
  for (const value of values) checkText(value, `${what} of ${option}`);
  return [...values];
}

function entriesOf(record: unknown, option: string): [string, unknown][] {
  const prototype = typeof record === "object" && record !== null ? Object.getPrototypeOf(record) : undefined;
  if (prototype === null || prototype === Object.prototype) return Object.entries(record as object);
  const advice = record instanceof Map ? "Object.fromEntries(map)" : "an object of names and values";
  throw new TypeError(`Cannot use ${whatIs(record)} as ${option}: give ${advice}`);
}
