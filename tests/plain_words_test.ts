import { assert, assertEquals } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { type Banned, identifiers, phrases } from "./plain_words.ts";
import { type Piece, piecesOfModule, piecesOfPython, proseOfPage } from "./support/prose.ts";
import { test } from "./support/test.ts";

const root = new URL("../", import.meta.url);

/** What must be said in other words, one line each: where it is, and what to say. */
function misses(path: string, source: string): string[] {
  const report = ({ text, line }: Piece, index: number, { word, say }: Banned) =>
    `${path}:${line + text.slice(0, index).split("\n").length - 1}: "${word}": say ${say}`;
  const { prose, code } = partsOf(path, source);
  return [
    ...prose.flatMap((piece) => {
      const found = positionsIn(piece.text);
      return found.map(({ banned, index }) => report(piece, index, banned));
    }),
    ...code.flatMap((piece) =>
      [...piece.text.matchAll(/[A-Za-z_$][\w$]*/g)].flatMap(({ 0: name, index }) =>
        bannedIn(name).map((banned) => report(piece, index, banned))
      )
    ),
  ];
}

/** The prose and the code of a file. Tests have no other prose than their names. */
function partsOf(path: string, source: string): { prose: readonly Piece[]; code: readonly Piece[] } {
  if (path.endsWith(".md")) return { prose: paragraphsOf(proseOfPage(source)), code: [] };
  const { comments, strings, code } = path.endsWith(".py") ? piecesOfPython(source) : piecesOfModule(source);
  if (path.startsWith("tests/")) {
    const names = source.matchAll(/^ *(?:await )?\w*[tT]est\w*\(\s*(["`])((?:[^\\]|\\.)*?)\1/gm);
    return {
      prose: [...names].map(({ 2: text, index }) => ({ text: text!, line: source.slice(0, index).split("\n").length })),
      code: [],
    };
  }
  return { prose: [...comments, ...strings.filter(({ text }) => text.includes(" "))], code };
}

function paragraphsOf(pages: readonly Piece[]): Piece[] {
  return pages.flatMap(({ text, line }) => {
    let next = line;
    return text.split("\n\n").map((paragraph) => {
      const piece = { text: paragraph, line: next };
      next += paragraph.split("\n").length + 1;
      return piece;
    });
  });
}

const matchers = phrases.map((banned) => {
  const source = banned.pattern?.source ?? banned.word;
  // A space stands for any white space: a phrase may continue on the next line.
  const words = `(?<![\\w\`-])(?:${source.replaceAll(" ", "\\s+")})(?![\\w\`-])`;
  return { banned, matcher: new RegExp(source.startsWith("^") ? `^\\s*${source.slice(1)}` : words, "gi") };
});

/** The positions in a text at which phrases begin. Lines of comments begin with a star or slashes. */
function positionsIn(text: string): { banned: Banned; index: number }[] {
  const body = text.replaceAll(/^[ \t]*(?:\/\*\*?|\*\/|\*|\/\/|#)|\*\/$/gm, (mark) => " ".repeat(mark.length))
    .trimEnd();
  return matchers.flatMap(({ banned, matcher }) => [...body.matchAll(matcher)].map(({ index }) => ({ banned, index })));
}

const known = new Map<string, readonly Banned[]>();

/** The banned identifiers in a name, whose words are `"give back all"` in `giveBackAll` and `_GIVE_BACK_ALL`. */
function bannedIn(name: string): readonly Banned[] {
  let found = known.get(name);
  if (found === undefined) {
    const words = (name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g) ?? []).join(" ").toLowerCase();
    found = identifiers.filter(({ word }) => ` ${words} `.includes(` ${word} `));
    known.set(name, found);
  }
  return found;
}

const folders = ["src", "ffi", "cli", "tests", "docs", "python"];
const files = [
  "README.md",
  ...["mod", "sharing", "store", "collectives", "operators", "npy", "safetensors"].map((name) => `${name}.ts`),
  ...folders.flatMap((folder) =>
    readdirSync(new URL(`${folder}/`, root), { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`)
  ),
].filter((path) =>
  /\.(?:ts|c|h|py|md)$/.test(path) &&
  !/^tests\/.*\.md$|node_modules|^ffi\/native\/shim\/(?:x86_64|aarch64)\.ts$/.test(path)
);

test("comments, messages, the names of tests, pages and identifiers use plain words", () => {
  assert(files.length > 1000, `${files.length} files`);
  assertEquals(files.flatMap((path) => misses(path, readFileSync(new URL(path, root), "utf8"))), []);
});

test("there are at most 60 banned words, each of them once", () => {
  assert(phrases.length + identifiers.length <= 60, `${phrases.length + identifiers.length} entries`);
  for (const list of [phrases, identifiers]) assertEquals(list.length, new Set(list.map(({ word }) => word)).size);
});

test("a banned word is found in each kind of prose and in identifiers, and nowhere else", () => {
  const found = (path: string, ...lines: string[]) => misses(path, lines.join("\n"));
  assertEquals(found("src/a.ts", "/** Its", " * keeper", " */", "let a = 1; // gives", "// back"), [
    'src/a.ts:2: "keeper": say holder; backup; for a reason: refusal',
    'src/a.ts:4: "give back": say return, release',
  ]);
  assertEquals(found("src/a.ts", "throw new Error(`Cannot ${verb} what is no ${noun}`);"), [
    'src/a.ts:1: "what is no": say what is not a',
  ]);
  assertEquals(found("src/a.ts", "/** Those pointers. */"), [
    'src/a.ts:1: "those ...": say a sentence that says what the thing is',
  ]);
  assertEquals(found("src/a.ts", 'this.#giveBackAll(`${keeper}`, "keeper", /twin/);'), [
    'src/a.ts:1: "give back": say release, return',
    'src/a.ts:1: "keeper": say holder, backup',
  ]);
  assertEquals(found("python/a.py", "def _give_back():", '    """Hands it over."""', "    # in", "    # vain"), [
    'python/a.py:3: "in vain": say without effect',
    'python/a.py:1: "give back": say release, return',
  ]);
  assertEquals(found("docs/a.md", "A `keeper` is a", "keeper.", "", "    keeper", "", "```", "keeper", "```"), [
    'docs/a.md:2: "keeper": say holder; backup; for a reason: refusal',
  ]);
  assertEquals(found("tests/a_test.ts", 'leakTest("a twin", () => keeper()); // a keeper'), [
    'tests/a_test.ts:1: "twin": say equivalent',
  ]);
  assertEquals(found("src/a.ts", "const keepers1 = /^keeper/; const housekeeper = 'keeper';"), []);
});
