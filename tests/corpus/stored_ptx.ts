/**
 * The stored PTX of the corpus. What compilers write by default, or with optimization only, lies in files, to be read
 * and compared. PTX for a debugger and PTX without contraction are larger, and lie in one archive for each compiler.
 *
 * `deno run -A tests/corpus/stored_ptx.ts FILE`, such as `tests/corpus/nvcc/calls.debug.ptx`, prints the PTX that an
 * archive has for a file.
 *
 * @module
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { brotliCompressSync, brotliDecompressSync, constants } from "node:zlib";
import { answerHelp } from "../support/program_help.ts";

/** A JSON object with the text of each file, compressed. */
const archiveName = "archive.br";

/** What archives have, by their folder: each is decompressed once. */
const archives = new Map<string, Readonly<Record<string, string>>>();

/** Returns the names of all PTX that is stored in a folder, in files and in its archive, sorted. */
export function ptxNames(folder: URL): string[] {
  return [...readdirSync(folder).filter((name) => name.endsWith(".ptx")), ...Object.keys(readArchive(folder))].sort();
}

/** Returns stored PTX by its name in its folder. */
export function readStoredPtx(folder: URL, name: string): string {
  if (!isArchived(name)) return readFileSync(new URL(name, folder), "utf8");
  const text = readArchive(folder)[name];
  if (text === undefined) throw new Error(`Cannot find ${name} in ${new URL(archiveName, folder).pathname}`);
  return text;
}

/** Stores PTX by name. An archive is written only if it has other PTX afterwards. */
export function writeStoredPtx(folder: URL, texts: Readonly<Record<string, string>>): void {
  const archived = { ...readArchive(folder) };
  let isChanged = false;
  for (const [name, text] of Object.entries(texts)) {
    if (!isArchived(name)) {
      writeFileSync(new URL(name, folder), text);
    } else if (archived[name] !== text) {
      archived[name] = text;
      isChanged = true;
    }
  }
  if (!isChanged) return;
  const sorted = Object.fromEntries(Object.keys(archived).sort().map((name) => [name, archived[name]!]));
  const params = { [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS };
  writeFileSync(new URL(archiveName, folder), brotliCompressSync(JSON.stringify(sorted), { params }));
  archives.set(folder.href, sorted);
}

/** Whether PTX lies in its folder's archive. */
function isArchived(name: string): boolean {
  return /\.(debug|nofma)\.ptx$/.test(name);
}

function readArchive(folder: URL): Readonly<Record<string, string>> {
  let texts = archives.get(folder.href);
  if (texts === undefined) {
    const path = new URL(archiveName, folder);
    texts = existsSync(path) ? JSON.parse(brotliDecompressSync(readFileSync(path)).toString("utf8")) : {};
    archives.set(folder.href, texts!);
  }
  return texts!;
}

if (import.meta.main) {
  answerHelp(import.meta.url, []);
  const [path] = Deno.args;
  if (path === undefined) {
    console.error("Usage: stored_ptx.ts FILE");
    Deno.exit(2);
  }
  const url = pathToFileURL(path);
  console.log(readStoredPtx(new URL(".", url), url.pathname.slice(url.pathname.lastIndexOf("/") + 1)).trimEnd());
}
