/**
 * `poolpass bind`: generates TypeScript modules from kernels.
 *
 * @module
 */
import { readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import {
  type Command,
  type OptionValues,
  readingError,
  readOptions,
  type Terminal,
  UsageError,
} from "../command_line.ts";
import { CompileError, type CompileOptions } from "../../mod.ts";
import { PtxError } from "../../src/ptx/syntax.ts";
import { printable } from "../status/table.ts";
import { type Compile, SourceCompiler } from "./compile.ts";
import { generate, type GeneratedModule } from "./generate.ts";
import { readIfThere, readSourceFiles } from "./source_files.ts";
import { rebuildOnChange } from "./watch.ts";

const options = {
  out: { type: "string", short: "o" },
  import: { type: "string" },
  architecture: { type: "string" },
  include: { type: "strings", short: "I" },
  define: { type: "strings", short: "D" },
  "name-expression": { type: "strings" },
  flag: { type: "strings" },
  "no-fused-multiply-add": { type: "boolean" },
  "no-line-info": { type: "boolean" },
  ptx: { type: "boolean" },
  check: { type: "boolean" },
  watch: { type: "boolean" },
} as const;

/** The options that only affect compilation. They are an error for a PTX file, which needs no compilation. */
const compileOptions = [
  "architecture",
  "include",
  "define",
  "name-expression",
  "flag",
  "no-fused-multiply-add",
  "no-line-info",
  "ptx",
] as const;
/** The options that do not affect the generated module. The command in the module's header omits them. */
const unrecordedOptions: ReadonlySet<string> = new Set(["out", "check", "watch"]);

const help = `Usage: poolpass bind FILE.cu... [options]
       poolpass bind FILE.ptx... [options]

Writes FILE.ts: the PTX of the kernels, and the types of their parameters. TypeScript
then completes the names of kernels, and checks the arguments of each launch:

    import { ptx } from "./saxpy.ts";
    using module = gpu.loadModule(ptx);
    module.kernel("saxpy").launch({ grid: 4, block: 256, stream }, 1024, 2.5, x, y);

CUDA C++ is compiled by NVRTC, nvcc or clang, whichever is found first. The names and
types of parameters come from debug information; without it, parameters are numbered.

  -o, --out FILE              the module to write, for one FILE.cu
      --import SPECIFIER      what the module imports poolpass from; default "poolpass"
      --architecture NAME     the virtual architecture; default compute_75, whose PTX the
                              command lowers for drivers since CUDA 11.0 where possible
  -I, --include FOLDER        also looks for headers in a folder
  -D, --define NAME[=VALUE]   defines a macro
      --name-expression NAME  instantiates a template: "scale<float>"
      --no-fused-multiply-add does not fuse multiplications and additions
      --no-line-info          leaves line information out of the PTX
      --flag FLAG             passes a flag to the compiler
      --ptx                   also writes FILE.ptx
      --check                 writes nothing; exits with 1 if a file is out of date
      --watch                 writes the modules again whenever a source or a header changes`;

/** The command `poolpass bind`. */
export const bindCommand: Command = {
  name: "bind",
  summary: "writes TypeScript modules from CUDA C++ or PTX, with the types of the kernels' parameters",
  help,
  run,
};

type Values = OptionValues<typeof options>;

/** A file to bind, the path of the generated module, and the options of the command. */
interface Task {
  readonly file: string;
  readonly out: string;
  readonly values: Values;
  readonly compile: Compile;
  readonly terminal: Terminal;
}

async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const { files, values } = readOptions(args, options);
  if (files.length === 0) throw new UsageError("There is no file to bind: give the path of a .cu or .ptx file");
  if (values.out !== undefined && files.length > 1) {
    throw new UsageError(`Cannot write ${files.length} modules to ${values.out}: give --out with one file only`);
  }
  if (values.watch && values.check) {
    throw new UsageError("Cannot give --check with --watch: one of them does not write");
  }
  using compiler = new SourceCompiler();
  const tasks = files.map((file) => taskFor(file, { values, compile: compiler.compile, terminal }));
  const outs = new Set(tasks.map(({ out }) => out));
  if (outs.size < tasks.length) throw new UsageError("Two of the files would be written to the same module");
  if (!values.watch) return tasks.map(bindFile).every((succeeded) => succeeded) ? 0 : 1;
  await Promise.all(tasks.map((task) =>
    rebuildOnChange({
      read: () => readSourceFiles(task.file, values.include),
      build: () => void bindFile(task),
      signal: terminal.signal,
    })
  ));
  return 0;
}

function taskFor(file: string, { values, compile, terminal }: Omit<Task, "file" | "out">): Task {
  const extension = extname(file);
  if (extension !== ".cu" && extension !== ".ptx") {
    const isBinary = extension === ".cubin" || extension === ".fatbin";
    const advice = isBinary
      ? "it does not say its kernels' parameters; give the .cu or .ptx file"
      : "its name ends with neither";
    throw new UsageError(`Cannot bind ${file}, because only .cu and .ptx files can be bound: ${advice}`);
  }
  const given = compileOptions.find((name) => {
    const value = values[name];
    return value !== undefined && value !== false && (!Array.isArray(value) || value.length > 0);
  });
  if (extension === ".ptx" && given !== undefined) {
    throw new UsageError(`Cannot give --${given} for ${file}: PTX is compiled already`);
  }
  const out = values.out ?? join(dirname(file), `${basename(file, extension)}.ts`);
  if (!/\.m?ts$/.test(out)) throw new UsageError(`Cannot write a module to ${out}: its name must end with .ts`);
  return { file, out, values, compile, terminal };
}

/**
 * Generates the module for a file. Writes the module or, with `--check`, compares it with the existing file. Prints the
 * result. Returns false if the generation fails or the existing file differs.
 */
function bindFile(task: Task): boolean {
  const { file, out, values, terminal } = task;
  try {
    const generated = generateFrom(task);
    if (generated.log.trim() !== "") terminal.printError(namePath(generated.log, file).trimEnd());
    const outputs: [path: string, content: string][] = [[out, generated.source]];
    if (values.ptx) outputs.push([out.replace(/\.m?ts$/, ".ptx"), generated.ptx]);
    if (values.check) {
      const outdated = outputs.filter(([path, content]) => readIfThere(path) !== content);
      for (const [path] of outdated) terminal.printError(`${path} is not what ${file} gives: bind it again`);
      return outdated.length === 0;
    }
    refuseForeign(out);
    for (const [path, content] of outputs) writeFileSync(path, content);
    terminal.print(`${printable(out)}: ${generated.kernelNames.join(", ")}`);
    return true;
  } catch (error) {
    terminal.printError(messageOf(error, file));
    return false;
  }
}

function generateFrom({ file, values, compile }: Task): GeneratedModule {
  const compileOptions: CompileOptions = {
    ...(values.architecture === undefined ? {} : { architecture: values.architecture }),
    includePaths: [dirname(file), ...values.include],
    defines: definesOf(values.define),
    nameExpressions: values["name-expression"],
    fusedMultiplyAdd: !values["no-fused-multiply-add"],
    lineInfo: !values["no-line-info"],
    flags: values.flag,
  };
  return generate(read(file), {
    file: basename(file),
    command: commandFor(file, values),
    importFrom: values.import ?? "poolpass",
    compileOptions,
    compile,
  });
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw readingError(file, error);
  }
}

/** Throws if the output file exists and was not generated, so that no hand-written module is overwritten. */
function refuseForeign(out: string): void {
  const text = readIfThere(out) ?? "";
  if (text.trim() === "" || /^\/\/ Generated from .* Do not edit\.$/m.test(text)) return;
  throw new Error(`Cannot write ${out}: the file is there, and was not generated; move it, or give --out`);
}

function definesOf(definitions: readonly string[]): Record<string, string> {
  return Object.fromEntries(definitions.map((definition) => {
    const at = definition.indexOf("=");
    return at < 0 ? [definition, "1"] : [definition.slice(0, at), definition.slice(at + 1)];
  }));
}

/** Returns the command that regenerates the module when run in the folder that contains `file`. */
function commandFor(file: string, values: Values): string {
  const given = Object.entries(values).flatMap(([name, value]) => {
    if (unrecordedOptions.has(name) || value === undefined || value === false) return [];
    if (value === true) return [`--${name}`];
    return [value].flat().flatMap((each) => [`--${name}`, quoted(String(each))]);
  });
  return ["poolpass bind", quoted(basename(file)), ...given].join(" ");
}

function quoted(argument: string): string {
  if (/^[\w@%+=:,./-]+$/.test(argument)) return argument;
  return `'${argument.replaceAll("'", "'\\''")}'`;
}

/** Returns the text to print for an error: the compiler's log, or the error's message. */
function messageOf(error: unknown, file: string): string {
  const { message } = error as Error;
  // The compiler's log lists all errors. Line 0 indicates an error in a name expression, which is not part of the
  // source: print the error's message instead.
  if (error instanceof CompileError) return namePath(error.line === 0 ? message : error.log, file).trimEnd();
  if (error instanceof PtxError) return `${file}:${error.line}: error: ${message.replace(/^Line \d+: /, "")}`;
  return message;
}

/**
 * In a compiler's log, replaces the base name of the source with its path, so that editors and terminals can link to
 * it.
 */
function namePath(log: string, file: string): string {
  const name = basename(file);
  return log.split("\n").map((line) =>
    line.startsWith(`${name}(`) || line.startsWith(`${name}:`) ? file + line.slice(name.length) : line
  ).join("\n");
}
