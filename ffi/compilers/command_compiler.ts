/**
 * What nvcc and clang have in common: the source and its headers are files in memory, and the result is printed.
 *
 * @module
 */
import { CompileError, compileError, hasErrors, nameExpressionFile } from "../../src/compile/compile_error.ts";
import type { CompilerInput, CompilerOutput } from "../../src/compile/compiler.ts";
import { nameDeclarations, takeNames } from "../../src/compile/name_expressions.ts";
import { named, replaceIncludes } from "../../src/compile/string_headers.ts";
import { type CommandResult, MemoryFiles, runCommand } from "./command.ts";

/** The files of a compilation. */
export interface CommandPaths {
  /** Where more of them can be created. */
  readonly files: MemoryFiles;
  readonly source: string;
  /** Where the cubin is to be written; undefined if PTX is wanted. */
  readonly cubin: string | undefined;
}

/** A compiler that is a command. */
export interface CommandCompiler {
  /** With its version: `nvcc 13.0`. */
  readonly name: string;
  readonly command: string;
  /** The arguments that have PTX printed, or a cubin written to a path. */
  argumentsFor(input: CompilerInput, paths: CommandPaths): readonly string[];
  /** What is left of the messages of a compilation that succeeded. */
  warningsIn(messages: string): string;
}

/** The message of a compiler that refuses one of its options. */
const refusedOption =
  /^\S*?(?:nvcc|ptxas|cicc|clang|gcc|g\+\+|cc1plus)(?:-\d+)?(?: fatal)?\s*:.*(?:option|argument|architecture|value)/mi;

/** Compiles a program by a command. */
export function compileByCommand(compiler: CommandCompiler, input: CompilerInput): CompilerOutput {
  using files = new MemoryFiles();
  const paths = new Map([...input.headers.keys()].map((name) => [name, files.create(name)]));
  for (const [name, text] of input.headers) files.write(paths.get(name)!, named(replaceIncludes(text, paths), name));
  const defines = [...input.defines].map(([name, value]) => `#define ${name} ${value}\n`).join("");
  const text = defines + named(replaceIncludes(input.source, paths), input.name);
  const createSource = (expressions: readonly string[]) => {
    const source = files.create(input.name);
    files.write(source, text + nameDeclarations(expressions));
    return source;
  };

  const run = (source: string, cubin?: string) => {
    const result = runCommand(compiler.command, compiler.argumentsFor(input, { files, source, cubin }));
    if (result === undefined) throw new Error(`Cannot compile with ${compiler.name}: it is no longer on the PATH`);
    const errors = files.rename(result.errors).trim();
    if (!result.succeeded) throw failure(compiler, input, { ...result, errors });
    return { output: result.output, warnings: compiler.warningsIn(errors).trim() };
  };
  const runWithNames = (source: string) => {
    try {
      return run(source);
    } catch (error) {
      // A source that lacks a brace makes the declarations wrong, and is the error to report.
      if (error instanceof CompileError && error.log.includes(nameExpressionFile)) run(createSource([]));
      throw error;
    }
  };

  const source = createSource(input.nameExpressions);
  const { output, warnings } = runWithNames(source);
  const { ptx, loweredNames } = takeNames(files.rename(output), input);
  let cubin: Uint8Array | undefined;
  if (input.architecture.startsWith("sm_")) {
    const path = files.create("a cubin");
    run(source, path);
    cubin = files.read(path);
  }
  return { ptx, cubin, log: warnings, loweredNames };
}

function failure({ name }: CommandCompiler, input: CompilerInput, { errors, output }: CommandResult): Error {
  const messages = errors === "" ? output.trim() : errors;
  if (hasErrors(messages)) return compileError(messages, input);
  const lines = messages.replaceAll("\n", "; ");
  if (refusedOption.test(messages)) {
    return new RangeError(`Cannot compile ${input.name}: ${name} refuses an option: ${lines}`);
  }
  return new Error(`Cannot compile ${input.name} with ${name}: ${lines === "" ? "it gives no reason" : lines}`);
}
