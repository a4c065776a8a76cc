/**
 * `--help` and `--version` of the programs that developers run: benchmarks, builds and long tests.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import { didYouMean } from "../../examples/command_line.ts";
import { version } from "../../mod.ts";

/**
 * Answers `--help` with the comment that describes a program's module, `--version`, and an option that the program does
 * not have, and exits. Does nothing for any other command line.
 *
 * @param url the program's `import.meta.url`
 * @param options the names of its options, without their dashes
 */
export function answerHelp(url: string, options: readonly string[] = []): void {
  const args = process.argv.slice(2);
  const all = [...options, "help", "version"];
  if (args.includes("--help") || args.includes("-h")) {
    console.log(`${descriptionIn(readFileSync(new URL(url), "utf8"))}\n`);
    console.log(["Options:", ...all.map((name) => `--${name}`)].join(" "));
    process.exit(0);
  }
  if (args.includes("--version")) {
    console.log(`poolpass ${version}`);
    process.exit(0);
  }
  for (const argument of args) {
    const name = /^--([^=]+)/.exec(argument)?.[1];
    if (name === undefined || options.includes(name)) continue;
    console.error(`There is no option --${name}${didYouMean(name, all)}; --help says what this program does`);
    process.exit(2);
  }
}

/** The text of a source's first documentation comment, without `@module`. */
function descriptionIn(source: string): string {
  const [, comment = ""] = /^\/\*\*\n([^]*?)\n \*\//m.exec(source) ?? [];
  return comment.replaceAll(/^ \* ?/gm, "").replace(/\n*@module\s*$/, "").trim();
}
