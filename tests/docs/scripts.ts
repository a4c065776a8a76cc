/**
 * Runs the code blocks as readers would: saves them as scripts and runs them, two at once if one shares with the other.
 * The scripts of `pastedPages` are saved unchanged in a folder that has nothing but what a clone has.
 *
 * @module
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import * as library from "../../mod.ts";
import { modulesBeside } from "../../packaging/imports.ts";
import { type ChildProcess, remainingLines, startCommand, startScript } from "../support/child_process.ts";
import { type Block, blocksOfPage, examplesOfModule } from "./blocks.ts";

/** The project's folder. */
export const root: URL = new URL("../../", import.meta.url);

/** Reads a file by its path in the project. */
export function readProjectFile(file: string): string {
  return readFileSync(new URL(file, root), "utf8");
}

/** Returns the files with an extension in a folder of the project and in its subfolders. */
export function filesBelow(folder: string, extension: string): string[] {
  return readdirSync(new URL(folder, root), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(extension)).map((file) => `${folder}${file}`).sort();
}

/** The pages for users and contributors. */
export const pages: readonly string[] = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  ...filesBelow("docs/", ".md"),
  "bench/README.md",
  "examples/README.md",
  "kernels/README.md",
  "src/sharing/protocol/PROTOCOL.md",
];

/** The pages whose scripts readers paste into files and run, in a clone. */
export const pastedPages: readonly string[] = ["README.md", "docs/graphs.md", "docs/guide.md", "docs/weights.md"];

/** The code blocks of all pages, in order. */
export const blocks: readonly Block[] = pages.flatMap((page) => blocksOfPage(page, readProjectFile(page)));

/** The examples in the JSDoc comments of all modules. */
export const examples: readonly Block[] = [
  "mod.ts",
  ...modulesBeside.map((part) => `${part}.ts`),
  ...filesBelow("src/", ".ts"),
  ...filesBelow("ffi/", ".ts"),
]
  .flatMap((file) => examplesOfModule(file, readProjectFile(file)));

/** Returns the name of a block in the names of tests. */
export function nameOf({ file, line }: Block): string {
  return `${file}:${line}`;
}

/** Whether a block is a complete program, with imports. */
export function isScript({ language, text }: Block): boolean {
  return language === "ts" && /^import .* from "\./m.test(text);
}

/** Whether a block begins in the middle of a program. */
export function isFragment(block: Block): boolean {
  return block.language === "ts" && !isScript(block);
}

const commandInFirstLine = /^\/\/ deno run (.*) \S+\n/;
const socketPath = /"\/tmp\/[^"]+\.sock"/;

/**
 * Returns the groups of blocks to run: each script or fragment is a group. Consecutive scripts that name the same
 * socket are one group and run at once, in order.
 */
export function scriptGroups(blocks: readonly Block[]): Block[][] {
  const runs: Block[][] = [];
  for (const script of blocks.filter(({ language }) => language === "ts")) {
    const last = runs.at(-1);
    const path = socketPath.exec(script.text)?.[0];
    if (path !== undefined && isScript(script) && last?.some(({ text }) => text.includes(path))) last.push(script);
    else runs.push([script]);
  }
  return runs;
}

const prelude = exportsOf(readProjectFile("tests/docs/prelude.ts"));
const preludeUrl = new URL("tests/docs/prelude.ts", root).href;

function exportsOf(module: string): string[] {
  return [...module.matchAll(/^export (?:\{ |(?:declare )?(?:const|let|class|function|async function) )(\w+)/gm)]
    .map((match) => match[1]!);
}

/** Returns a fragment with the imports that it needs before it. */
function completeFragment({ file, text }: Block): string {
  const isDeclared = (name: string) => new RegExp(`^(?:const|let|(?:await )?using|class) ${name}\\b`, "m").test(text);
  // A comment uses words, too. A URL has slashes, and no space before them.
  const code = text.replaceAll(/(^|\s)\/\/.*$/gm, "");
  // Nor is the name of a property one that is imported: only Node asks for those that are not used.
  const isUsed = (name: string) => new RegExp(`(?<!(?<!\\.)\\.)\\b${name}\\b(?!:)`).test(code);
  const used = (names: readonly string[]) => names.filter((name) => isUsed(name) && !isDeclared(name)).join(", ");
  const own = file.endsWith(".ts") ? exportsOf(readProjectFile(file)).filter((name) => !(name in library)) : [];
  return `import { ${used(Object.keys(library))} } from "./mod.ts";
import { ${used(prelude)} } from "${preludeUrl}";
import { end as endOfFragment } from "${preludeUrl}";
import { ${used(own)} } from "${new URL(file, root).href}";
async function fragment(): Promise<void> {
${text}
}
await fragment();
endOfFragment();`.replaceAll(/^import \{ {2}\}.*\n/gm, "");
}

/** A folder for the files of a test. */
export class TemporaryFolder implements Disposable {
  /** The path of the folder. */
  readonly path: string = mkdtempSync(join(tmpdir(), "poolpass_"));

  /**
   * Saves a script as if it were in the project's folder, or an example as if it were beside its module. Sockets are
   * created in this folder and not at the path in the block.
   */
  save(block: Block, name: string): URL {
    const module = block.file.endsWith(".ts") ? new URL(block.file, root) : root;
    const script = (isFragment(block) ? completeFragment(block) : block.text)
      .replaceAll(/ from "(\.[^"]*)"/g, (_, path: string) => {
        const isOfProject = entriesOfClone.includes(path.split("/")[1]!);
        return ` from "${new URL(path, isOfProject ? root : module).href}"`;
      })
      .replaceAll('"/tmp/', `"${this.path}/`);
    const path = join(this.path, name);
    writeFileSync(path, `${script}\nexport {};\n`);
    return new URL(`file://${path}`);
  }

  /** Deletes the folder. */
  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true });
  }
}

/** What a clone has that scripts import and read. */
const entriesOfClone = ["mod.ts", ...modulesBeside.map((part) => `${part}.ts`), "src", "ffi", "kernels"];

/**
 * The folder of the scripts of `pastedPages`, which has links to what a clone has. It stays, because Deno compiles the
 * library again for each new path.
 */
class PastedScripts implements Disposable {
  readonly #path = fileURLToPath(new URL("dist/pasted/", root));
  readonly #files: string[] = [];

  constructor() {
    mkdirSync(this.#path, { recursive: true });
    for (const entry of entriesOfClone) {
      try {
        symlinkSync(fileURLToPath(new URL(entry, root)), join(this.#path, entry));
      } catch (error) {
        if ((error as { code?: string }).code !== "EEXIST") throw error;
      }
    }
  }

  /** Saves a script, and starts it by the command that the pages name. Sockets are created in `sockets`. */
  start({ text }: Block, sockets: string, env: Readonly<Record<string, string>>): ChildProcess {
    const name = `${process.pid}_${this.#files.length}.ts`;
    const path = join(this.#path, name);
    this.#files.push(path);
    writeFileSync(path, text.replaceAll('"/tmp/', `"${sockets}/`));
    const run = "Deno" in globalThis ? ["run", "--no-prompt", ...permissionsOf(text)] : [];
    // Node's options of the tests are not those of a reader. The pages say how to silence the warning of its FFI.
    return startCommand(["/bin/sh", "-c", 'cd "$0" && exec "$@"', this.#path, process.execPath, ...run, name], {
      env: { ...env, NODE_OPTIONS: "", NODE_NO_WARNINGS: "1" },
    });
  }

  /** Deletes the scripts. */
  [Symbol.dispose](): void {
    for (const file of this.#files) rmSync(file);
  }
}

function permissionsOf(script: string): string[] {
  return commandInFirstLine.exec(script)?.[1]?.split(" ") ?? ["--allow-ffi"];
}

/** The output of a script, and its exit code or signal. */
export interface ScriptOutput {
  readonly lines: readonly string[];
  readonly errors: string;
  readonly ended: number | string;
}

/** Runs scripts at once on a driver. Each one starts when the previous one has printed its first line. */
export async function runTogether(scripts: readonly Block[], driver: string): Promise<ScriptOutput[]> {
  using folder = new TemporaryFolder();
  using pasted = new PastedScripts();
  await using children = new AsyncDisposableStack();
  const env = { POOLPASS_DRIVER: driver, NO_COLOR: "1" };
  const start = (script: Block, index: number) => {
    if (pastedPages.includes(script.file)) return pasted.start(script, folder.path, env);
    const permissions = permissionsOf(script.text);
    return startScript(folder.save(script, `script_${index}.ts`).href, [], { permissions, env });
  };
  const running: { child: ChildProcess; lines: string[] }[] = [];
  for (const [index, script] of scripts.entries()) {
    const child = children.use(start(script, index));
    const lines: string[] = [];
    running.push({ child, lines });
    if (index + 1 === scripts.length) continue;
    const line = await child.nextLine();
    if (line !== undefined) lines.push(line);
  }
  return await Promise.all(running.map(async ({ child, lines }) => {
    lines.push(...await remainingLines(child));
    return { lines, errors: await child.errors(), ended: await child.ended };
  }));
}

/** Returns the expected output of a script, in order: the comments after its calls of `console.log`. */
export function shownOutput({ text }: Block): string[] {
  return [...text.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm)].map((match) => match[1]!);
}

/**
 * Returns the first comment that the output does not contain after the previous one. The part of a comment after its
 * first colon is enough. "..." stands for any string, and the runtime's quotes and line breaks are ignored.
 */
export function firstMissing(lines: readonly string[], comments: readonly string[]): string | undefined {
  const printed = normalize(lines.join(" "));
  let from = 0;
  for (const comment of comments) {
    const end = endOf(comment, printed, from) ?? endOf(comment.replace(/^.*?: /, ""), printed, from);
    if (end === undefined) return comment;
    from = end;
  }
  return undefined;
}

function endOf(shown: string, printed: string, begin: number): number | undefined {
  const pattern = shown.split("...").map((piece) => RegExp.escape(normalize(piece))).join(".*?");
  const words = new RegExp(`(?<![\\w.])${pattern}(?![\\w])`, "g");
  words.lastIndex = begin;
  return words.test(printed) ? words.lastIndex : undefined;
}

function normalize(text: string): string {
  return text.replaceAll(/["']/g, "").replaceAll(/\s+/g, " ").replace(/,? *$/, "").trim();
}
