/**
 * The scripts of `tests/children/` as bundles. A process that loads the library from hundreds of files takes three times
 * as much processor time until it runs as one that loads it from a few.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { isLong } from "./test.ts";

const root: string = fileURLToPath(new URL("../../", import.meta.url));
const bundlesFolder = `${root}dist/children/`;
/** What the scripts import lies in these. */
const sources = ["mod.ts", "src", "ffi", "cli", "examples", "kernels", "tests"];
/** The folders of the scripts that are started often, and say nothing of the files that they lie in. */
const folders = ["collectives", "memory", "sharing", "software"];
/** The scripts beside these folders of which the same is true. */
const scriptsBeside = [
  "describe_devices.ts",
  ...["import_offer", "share_memory", "stay_silent", "wait_for_blocks"].map((name) => `sanitizer/${name}.ts`),
];
/** Milliseconds after which bundles of older sources are removed: other tests may still use them before. */
const keptTime = 3_600_000;
/** The environment variable with the folder of the bundles. It is empty where there are none. */
const variable = "CHILD_BUNDLES";
/** Milliseconds for bundling, for which Deno downloads esbuild once: where that takes longer, the scripts run themselves. */
const bundlingTimeout = 60_000;

/**
 * Lets scripts run as bundles from now on, where Deno can make them. Not in the long run, nor for what looks at the
 * sources of a process: those are to be as users have them. The files of `tests/together/` have modules of their own
 * but one environment, in which the first of them leaves the answer for the others.
 */
export function useBundles(): void {
  if (!("Deno" in globalThis) || isLong || process.env.POOLPASS_SANITIZE !== undefined) return;
  process.env[variable] ??= preparedBundles() ?? "";
}

/** The folder of the bundles of these sources, which are made if need be. Undefined if they cannot be made. */
function preparedBundles(): string | undefined {
  const folder = bundlesFolder + stateOfSources();
  return existsSync(folder) || makeBundles(folder) ? folder : undefined;
}

/** The path of a script's bundle, by the path within the folder of the tests. Undefined if the script is to run itself. */
export function bundleOf(path: string): string | undefined {
  const bundles = process.env[variable];
  if (!bundles || isLong || !path.startsWith("children/")) return undefined;
  const bundle = `${bundles}/${path.slice("children/".length).replace(/\.ts$/, ".js")}`;
  return existsSync(bundle) ? bundle : undefined;
}

/** A digest of the names, sizes and times of all files that a bundle may contain. */
function stateOfSources(): string {
  const hash = createHash("sha256");
  for (const source of sources) {
    const path = root + source;
    const files = source.endsWith(".ts") ? [""] : readdirSync(path, { recursive: true, encoding: "utf8" });
    for (const file of files.filter((name) => name === "" || name.endsWith(".ts"))) {
      const { mtimeMs, size } = statSync(`${path}/${file}`.replace(/\/$/, ""));
      hash.update(`${source}/${file} ${mtimeMs} ${size}\n`);
    }
  }
  return hash.digest("hex").slice(0, 16);
}

/** Returns whether the bundles were made. Tests that run at the same time make them only once. */
function makeBundles(folder: string): boolean {
  const children = `${root}tests/children/`;
  const scripts = folders.flatMap((name) =>
    readdirSync(children + name).filter((file) => file.endsWith(".ts")).map((file) => `${children}${name}/${file}`)
  ).concat(scriptsBeside.map((name) => children + name));
  let made: string | undefined;
  try {
    mkdirSync(bundlesFolder, { recursive: true });
    for (const name of readdirSync(bundlesFolder)) {
      const path = bundlesFolder + name;
      if (Date.now() - statSync(path).mtimeMs > keptTime) rmSync(path, { recursive: true });
    }
    made = mkdtempSync(`${bundlesFolder}new-`);
    const options = ["--quiet", "--code-splitting", "--keep-names", "--import-map=import_map.json", `--outdir=${made}`];
    const args = ["bundle", ...options, ...scripts];
    if (spawnSync(process.execPath, args, { cwd: root, stdio: "ignore", timeout: bundlingTimeout }).status !== 0) {
      return false;
    }
    const known = new Map<string, boolean>();
    for (const name of readdirSync(made, { recursive: true, encoding: "utf8" })) {
      const isScript = name.includes("/") || scriptsBeside.includes(name.replace(".js", ".ts"));
      if (isScript && asksForItsPlace(`${made}/${name}`, known)) rmSync(`${made}/${name}`);
    }
    // Other users start some of them, too.
    chmodSync(made, 0o755);
    renameSync(made, folder);
  } catch {
    // Nothing can be written there, or another process was faster.
  } finally {
    if (made !== undefined) rmSync(made, { recursive: true, force: true });
  }
  return existsSync(folder);
}

/** Whether a bundle, or what it imports, looks for files beside itself. */
function asksForItsPlace(path: string, known: Map<string, boolean>): boolean {
  const answer = known.get(path);
  if (answer !== undefined) return answer;
  const text = readFileSync(path, "utf8");
  const imported = [...text.matchAll(/^(?:import|\} from).*"(\.[^"]*)";$/gm)].map(([, name]) =>
    join(dirname(path), name!)
  );
  const asks = text.includes("import.meta") || imported.some((each) => asksForItsPlace(each, known));
  known.set(path, asks);
  return asks;
}

// As a program, prints the folder, for the tests of runtimes that bundle nothing themselves.
if (import.meta.main) console.log(preparedBundles() ?? "");
