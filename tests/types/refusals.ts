/**
 * The calls of `refused.ts`, and what the compilers say to them.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** A call that must not compile. */
export interface RefusedCall {
  readonly name: string;
  readonly code: string;
  /** The number of the first line of the code, counted from 1. */
  readonly line: number;
}

/** An error of a compiler. */
export interface Diagnostic {
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
  /** Counted from 1. */
  readonly column: number;
  /** `"TS2345"` */
  readonly code: string;
  /** The message, whose further lines explain the first. */
  readonly message: string;
}

const folder = new URL("./", import.meta.url);
const root = fileURLToPath(new URL("../../", import.meta.url));
const directive = /^\/\/ @ts-expect-error: (.+)$/gm;

/** Returns the calls of `refused.ts`, in order. */
export function refusedCalls(): RefusedCall[] {
  const source = readSource("refused.ts");
  return [...source.matchAll(directive)].map(({ 0: comment, 1: name, index }) => {
    const begin = index + comment.length + 1;
    const [code = ""] = source.slice(begin).split("\n\n");
    return { name: name!, code: code.trimEnd(), line: source.slice(0, begin).split("\n").length };
  });
}

/** Returns the names of the calls of `accepted.ts`, in order. */
export function acceptedCalls(): string[] {
  return [...readSource("accepted.ts").matchAll(/\n\n\/\/ (.+)/g)].map(([, name]) => name!);
}

/** Returns the errors that `tsc` finds in the calls. Needs npx, which may download the compiler. */
export function checkWithTsc(): Diagnostic[] {
  return checkCopies((copies) => {
    const config = `${copies.folder}/tsconfig.json`;
    writeFileSync(config, JSON.stringify({ extends: `${root}tsconfig.json`, files: copies.files }));
    const output = run("npx", ["-y", "-p", "typescript@7.0.2", "tsc", "--pretty", "false", "-p", config]);
    const errors = output.matchAll(/^(.+)\((\d+),(\d+)\): error (TS\d+): (.*(?:\n .*)*)/gm);
    return [...errors].map(([, file, line, column, code, message]) => ({
      file: file!,
      line: Number(line),
      column: Number(column),
      code: code!,
      message: message!,
    }));
  });
}

/** Returns the errors that the Deno which runs this finds in the calls. */
export function checkWithDeno(): Diagnostic[] {
  return checkCopies(({ files }) => {
    const output = run(process.execPath, ["check", "--quiet", "--config", `${root}deno.json`, ...files]);
    // Where the message ends, the source line follows, and a line that marks the place in it. Notes are indented.
    const errors = output.matchAll(/^(TS\d+) \[ERROR\]: (\S.*(?:\n .*)*)\n.+\n *[~^]+\n {4}at (.+):(\d+):(\d+)$/gm);
    return [...errors].map(([, code, message, file, line, column]) => ({
      file: fileURLToPath(file!),
      line: Number(line),
      column: Number(column),
      code: code!,
      // Its compiler lists the members of a union in the order in which it met them, tsc in alphabetical order.
      message: message!.replaceAll(/"\w+"(?: \| "\w+")+/g, (names) => names.split(" | ").sort().join(" | ")),
    }));
  });
}

/**
 * Compiles copies of both files from which the comments that expect errors are gone.
 *
 * @throws {Error} If the compiler finds an error elsewhere than in `refused.ts`, or none at all.
 */
function checkCopies(check: (copies: { folder: string; files: string[] }) => Diagnostic[]): Diagnostic[] {
  const copies = mkdtempSync("/tmp/poolpass-types-");
  try {
    const files = ["accepted.ts", "refused.ts"].map((name) => {
      const text = readSource(name).replaceAll(directive, "// $1")
        .replaceAll(/ from "(\..*)";/g, (_, path) => ` from "${fileURLToPath(new URL(path, folder))}";`);
      writeFileSync(`${copies}/${name}`, text);
      return `${copies}/${name}`;
    });
    const errors = check({ folder: copies, files });
    if (errors.length === 0) throw new Error("Cannot find the compiler's errors in what it printed");
    const elsewhere = errors.filter(({ file }) => !file.endsWith("/refused.ts"));
    if (elsewhere.length > 0) throw new Error(`Cannot compile what must compile: ${JSON.stringify(elsewhere)}`);
    return errors;
  } finally {
    rmSync(copies, { recursive: true });
  }
}

function run(program: string, args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1" },
    maxBuffer: 2 ** 24,
  });
  if (error !== undefined) throw error;
  if (status === 0) throw new Error(`Cannot believe ${program}: it finds no error in calls that must not compile`);
  return `${stdout}\n${stderr}`;
}

/**
 * Returns the one error of each call, in order.
 *
 * @throws {Error} If a call has no error or several, or there is an error outside the calls.
 */
export function errorsOfCalls(calls: readonly RefusedCall[], errors: readonly Diagnostic[]): Diagnostic[] {
  const found = calls.map(({ name, code, line }) => {
    const end = line + code.split("\n").length;
    const own = errors.filter((error) => error.line >= line && error.line < end);
    if (own.length !== 1) throw new Error(`Cannot see one error in "${name}", but ${own.length}`);
    return own[0]!;
  });
  if (found.length === errors.length) return found;
  throw new Error(`Cannot see the calls of ${JSON.stringify(errors.filter((error) => !found.includes(error)))}`);
}

/** Formats a refused call as compilers do: the code, with a mark under the place of the error, and the message. */
export function formatRefusal({ code, line }: RefusedCall, error: Diagnostic): string {
  const lines = code.split("\n");
  lines.splice(error.line - line + 1, 0, `${" ".repeat(error.column - 1)}^`);
  return [...lines, `${error.code}: ${error.message}`].join("\n");
}

function readSource(name: string): string {
  return readFileSync(new URL(name, folder), "utf8");
}
