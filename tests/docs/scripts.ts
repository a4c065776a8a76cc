/**
 * What readers do with the blocks: they save scripts and run them, two of them at once where one shares with the other.
 *
 * @module
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as library from "../../mod.ts";
import { type ChildProcess, startScript } from "../support/child_process.ts";
import { type Block, blocksOfPage, examplesOfModule } from "./blocks.ts";

/** The project's folder. */
export const root: URL = new URL("../../", import.meta.url);

/** A file of the project, by its path in it. */
export function readProjectFile(file: string): string {
  return readFileSync(new URL(file, root), "utf8");
}

/** Files of a folder of the project and of all below it whose names end so. */
export function filesBelow(folder: string, extension: string): string[] {
  return readdirSync(new URL(folder, root), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(extension)).map((file) => `${folder}${file}`).sort();
}

/** The pages that are written for those who use the project. */
export const pages: readonly string[] = [
  "README.md",
  "CONTRIBUTING.md",
  ...filesBelow("docs/", ".md"),
  "examples/README.md",
  "src/sharing/protocol/PROTOCOL.md",
];

/** All blocks of the pages, in their order. */
export const blocks: readonly Block[] = pages.flatMap((page) => blocksOfPage(page, readProjectFile(page)));

/** The examples in the comments of all modules that `mod.ts` reaches. */
export const examples: readonly Block[] = ["mod.ts", ...filesBelow("src/", ".ts"), ...filesBelow("ffi/", ".ts")]
  .flatMap((file) => examplesOfModule(file, readProjectFile(file)));

/** How a block is called in the name of a test. */
export function nameOf({ file, line }: Block): string {
  return `${file}:${line}`;
}

/** Whether a block is a program, which imports what it uses. */
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
 * What is run of a page: its scripts, and what begins in the middle. Scripts that stand one after the other and name the
 * same socket are run at once, in that order.
 */
export function runsOf(blocks: readonly Block[]): Block[][] {
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

function exportsOf(module: string): string[] {
  return [...module.matchAll(/^export (?:\{ |(?:declare )?(?:const|let|class|function|async function) )(\w+)/gm)]
    .map((match) => match[1]!);
}

/** What begins in the middle, with all that it needs before it. */
function completed({ file, text }: Block): string {
  const isDeclared = (name: string) => new RegExp(`^(?:const|let|(?:await )?using|class) ${name}\\b`, "m").test(text);
  const used = (names: readonly string[]) =>
    names.filter((name) => new RegExp(`\\b${name}\\b`).test(text) && !isDeclared(name)).join(", ");
  const own = file.endsWith(".ts") ? exportsOf(readProjectFile(file)).filter((name) => !(name in library)) : [];
  return `import { ${used(Object.keys(library))} } from "./mod.ts";
import { ${used(prelude)} } from "${new URL("tests/docs/prelude.ts", root).href}";
import { ${used(own)} } from "${new URL(file, root).href}";
async function fragment(): Promise<void> {
${text}
}
await fragment();`.replaceAll(/^import \{ {2}\}.*\n/gm, "");
}

/** A folder for what a test writes. */
export class Folder implements Disposable {
  /** Where it is. */
  readonly path: string = mkdtempSync(join(tmpdir(), "poolpass_"));

  /**
   * Saves a script as if it lay in the project's folder, or an example as if it lay beside its module. Sockets are made in
   * this folder, not where the page says.
   */
  save(block: Block, name: string): URL {
    const module = block.file.endsWith(".ts") ? new URL(block.file, root) : root;
    const script = (isFragment(block) ? completed(block) : block.text)
      .replaceAll(/ from "(\.[^"]*)"/g, (_, path: string) => {
        const isOfProject = path === "./mod.ts" || path.startsWith("./kernels/");
        return ` from "${new URL(path, isOfProject ? root : module).href}"`;
      })
      .replaceAll('"/tmp/', `"${this.path}/`);
    const path = join(this.path, name);
    writeFileSync(path, `${script}\nexport {};\n`);
    return new URL(`file://${path}`);
  }

  /** Deletes it. */
  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true });
  }
}

/** What a script has printed, and how it ended. */
export interface Printed {
  readonly lines: readonly string[];
  readonly errors: string;
  readonly ended: number | string;
}

/** Runs scripts at once, on a driver: each is started when the one before has printed its first line. */
export async function runTogether(scripts: readonly Block[], driver: string): Promise<Printed[]> {
  using folder = new Folder();
  await using children = new AsyncDisposableStack();
  const running: { child: ChildProcess; lines: string[] }[] = [];
  for (const [index, script] of scripts.entries()) {
    const permissions = commandInFirstLine.exec(script.text)?.[1]?.split(" ") ?? ["--allow-ffi"];
    const env = { POOLPASS_DRIVER: driver, NO_COLOR: "1" };
    const child = children.use(startScript(folder.save(script, `script_${index}.ts`).href, [], { permissions, env }));
    const lines: string[] = [];
    running.push({ child, lines });
    if (index + 1 === scripts.length) continue;
    const line = await child.nextLine();
    if (line !== undefined) lines.push(line);
  }
  return await Promise.all(running.map(async ({ child, lines }) => {
    for (let line = await child.nextLine(); line !== undefined; line = await child.nextLine()) lines.push(line);
    return { lines, errors: await child.errors(), ended: await child.ended };
  }));
}

/** What a script is shown to print, in its order: the comments behind its calls of `console.log`. */
export function shownOutput({ text }: Block): string[] {
  return [...text.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm)].map((match) => match[1]!);
}

/**
 * The first comment that what was printed does not bear out: neither all of the comment nor what stands behind its first
 * colon comes next in it. "..." stands for anything, and how a runtime quotes and breaks lines is all the same.
 */
export function missingIn(lines: readonly string[], comments: readonly string[]): string | undefined {
  const printed = plain(lines.join(" "));
  let from = 0;
  for (const comment of comments) {
    const end = endOf(comment, printed, from) ?? endOf(comment.replace(/^.*?: /, ""), printed, from);
    if (end === undefined) return comment;
    from = end;
  }
  return undefined;
}

function endOf(shown: string, printed: string, begin: number): number | undefined {
  const pattern = shown.split("...").map((piece) => RegExp.escape(plain(piece))).join(".*?");
  const words = new RegExp(`(?<![\\w.])${pattern}(?![\\w])`, "g");
  words.lastIndex = begin;
  return words.test(printed) ? words.lastIndex : undefined;
}

function plain(text: string): string {
  return text.replaceAll(/["']/g, "").replaceAll(/\s+/g, " ").replace(/,? *$/, "").trim();
}
