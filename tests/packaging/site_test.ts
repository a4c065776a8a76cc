import { assert, assertEquals } from "@std/assert";
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { inflateSync } from "node:zlib";
import * as poolpass from "../../mod.ts";
import { pagesOf, sectionsOf } from "../../packaging/site/build.ts";
import { test } from "../support/test.ts";

const root = new URL("../../", import.meta.url);
const site = new URL("dist/docs/", root);
const pages = pagesOf(readFileSync(new URL("docs/README.md", root), "utf8"));
const names = [...sectionsOf(readFileSync(new URL("mod.ts", root), "utf8")).keys()];

test("docs/README.md lists every page of its folder, and only what exists", () => {
  const files = readdirSync(new URL("docs/", root), { encoding: "utf8", recursive: true });
  const missing = files.filter((file) => file.endsWith(".md") && !pages.has(`docs/${file}`));
  assertEquals(missing, []);
  assertEquals([...pages.keys()].filter((page) => !existsSync(new URL(page, root))), []);
});

test("deno task docs builds every page and every name of mod.ts into a site whose links and search work", {
  skip: "Deno" in globalThis ? false : "deno task is Deno's",
  long: true,
}, async () => {
  await promisify(execFile)(process.execPath, ["task", "docs"], { cwd: fileURLToPath(root) });
  const files = readdirSync(site, { encoding: "utf8", recursive: true }).filter((file) => file.endsWith(".html"));
  const html = new Map(files.map((file) => [new URL(file, site).href, readFileSync(new URL(file, site), "utf8")]));
  for (const page of pages.keys()) assert(html.has(new URL(page.replace(/\.md$/, ".html"), site).href), page);
  assert(names.length > 100 && Object.keys(poolpass).every((name) => names.includes(name)), "Names were found");

  const links = [...html].flatMap(([from, text]) =>
    [...text.matchAll(/ (?:href|src)="([^"]*)"/g)].map(([, to]) => new URL(to!.replaceAll("&amp;", "&"), from))
  );
  const { rows, index } = inflated<SearchData>("assets/search.js");
  const found = rows.map(({ url }) => new URL(url, site));
  const anchors = new Map(
    [...html].map(([url, text]) => [url, new Set([...text.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id!))] as const),
  );
  const isBroken = ({ hash, pathname }: URL) => {
    const file = new URL(pathname.endsWith("/") ? `${pathname}index.html` : pathname, site);
    const ids = anchors.get(file.href);
    if (hash !== "" && ids !== undefined) return !ids.has(decodeURIComponent(hash.slice(1)));
    return !statSync(file, { throwIfNoEntry: false })?.isFile();
  };
  assert(isBroken(new URL("docs/gone.html", site)) && isBroken(new URL("docs/guide.html#gone", site)));
  const internal = [...links, ...found].filter(({ protocol }) => protocol === "file:");
  assert(internal.length > 10_000, "Links were found");
  assertEquals([...new Set(internal.filter(isBroken).map(({ href }) => href))], []);
  const toSources = [...html.values()].flatMap((text) => [...text.matchAll(/="[^"#]*\/blob\/main\/([^"#]*)/g)]);
  const paths = new Set(toSources.map(([, path]) => path!));
  assert(paths.size > 50, "Links to sources were found");
  assertEquals([...paths].filter((path) => path.includes("..") || !existsSync(new URL(path, root))), []);

  const words = new Set(index.invertedIndex.map(([word]) => word));
  const results = new Set(rows.map(({ name, parent }) => `${parent}.${name}`));
  assertEquals(names.filter((name) => !results.has(`poolpass.${name}`) || !words.has(name.toLowerCase())), []);
  assert(results.has("poolpass.MemoryPool.allocateArray") && results.has("Guide.Stream order"));
  assert(results.has("poolpass.MemoryPool.[dispose]"), "TypeDoc has the types of tsconfig.json");

  const navigation = inflated<{ text: string; children?: unknown[] }[]>("assets/navigation.js").map(({ text }) => text);
  assertEquals(navigation.slice(0, 2), ["Guide", "Coming from CUDA, cuda.core or CuPy"]);
  assertEquals(navigation.at(-1), "API reference");
});

/** The index of the site's search: a row for each result, and the words that lead to them. */
interface SearchData {
  readonly rows: readonly { readonly name: string; readonly parent?: string; readonly url: string }[];
  readonly index: { readonly invertedIndex: readonly [word: string, ...unknown[]][] };
}

/** Reads a script of the site that sets a variable to compressed JSON. */
function inflated<Type>(path: string): Type {
  const [, data] = /= ?"([^"]*)"/.exec(readFileSync(new URL(path, site), "utf8"))!;
  return JSON.parse(inflateSync(Uint8Array.fromBase64(data!)).toString());
}
