import { assert, assertEquals, assertMatch } from "@std/assert";
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parts } from "../../packaging/imports.ts";
import { test } from "../support/test.ts";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { taskCommands } from "../support/tasks.ts";

const skip = "Deno" in globalThis ? false : "deno task is Deno's";
const root = new URL("../../", import.meta.url);

interface Configuration {
  readonly imports?: unknown;
  readonly importMap?: unknown;
  readonly workspace?: unknown;
  readonly lock?: unknown;
}

const configuration = readJson<Configuration>("deno.json");

// `deno task` downloads every npm package that deno.json, package.json or a lock file named in deno.json lists, for any
// task. So commands get the lock file as an argument.
test("neither deno.json nor package.json names a package to install", () => {
  const { imports, importMap, workspace, lock } = configuration;
  assertEquals([imports, importMap, workspace, lock], [undefined, undefined, undefined, false]);
  const manifest = readJson<Record<string, unknown>>("package.json");
  assertEquals(Object.keys(manifest).filter((key) => /dependencies|workspaces/i.test(key)), []);
});

test("every file names the same version of deno-std", () => {
  const { imports } = readJson<{ imports: Record<string, string> }>("import_map.json");
  const specifiers = Object.values(imports);
  assert(specifiers.length > 0, "Imports were found");
  const named = ["import_map.json", "deno.lock", "CONTRIBUTING.md", ".ci/steps.sh"].map((path) => {
    const versions = [...read(path).matchAll(/\bdeno-std@([\w.-]*\w)/g)].map(([, version]) => version!);
    assert(versions.length > 0, `${path} names deno-std`);
    return versions;
  });
  assertEquals(new Set(named.flat()).size, 1, named.join(" "));
});

test("Bun finds the modules of the import map by tsconfig.json, and nothing else", () => {
  const { imports } = readJson<{ imports: Record<string, string> }>("import_map.json");
  const { compilerOptions } = readJson<{ compilerOptions: { paths: Record<string, string[]> } }>("tsconfig.json");
  const expected = Object.entries(imports).filter(([, specifier]) => specifier.startsWith("npm:")).map((
    [name, specifier],
  ) => [name, [specifier.replace(/^npm:([\w-]+)@[\w.-]+/, "./node_modules/$1")]]);
  assertEquals(compilerOptions.paths, Object.fromEntries(expected));
});

test("deno.lock pins what the import map names by a hash, and nothing else", () => {
  const { imports } = readJson<{ imports: Record<string, string> }>("import_map.json");
  const { npm } = readJson<{ npm: Record<string, { integrity: string }> }>("deno.lock");
  const named = Object.values(imports).map((specifier) => /^npm:([\w-]+@[\w.-]+)\//.exec(specifier)?.[1] ?? specifier);
  assertEquals(Object.keys(npm), [...new Set(named)]);
  for (const { integrity } of Object.values(npm)) assertMatch(integrity, /^sha512-/);
});

test("mod.ts, its parts, the kernels and the examples import nothing that needs the import map", { skip }, async () => {
  const examples = readdirSync(new URL("examples/", root)).filter((name) => name.endsWith(".ts"));
  const kernels = readdirSync(new URL("kernels/", root)).filter((name) => name.endsWith(".cu"));
  const entries = [
    "mod.ts",
    ...parts.map((part) => `${part}.ts`),
    ...examples.map((name) => `examples/${name}`),
    ...kernels.map((name) => `kernels/${name.slice(0, -".cu".length)}.ts`),
  ];
  assert(entries.includes("examples/demo.ts"), "The examples were found");
  const graph = await graphOf(entries);
  assertEquals(entries.flatMap((entry) => graph.foreignTo(entry)), []);
});

test("tasks pass the import map exactly if they need it", { skip }, async () => {
  const programs = Object.entries(taskCommands()).flatMap(([name, command]) =>
    command.split(" && ").flatMap((part) => {
      const file = /^deno run .*?([\w/]+\.ts)\b/.exec(part)?.[1];
      return file === undefined || part.includes("--no-config") ? [] : [{ name, part, file }];
    })
  );
  const graph = await graphOf(programs.map(({ file }) => file));
  for (const { name, part, file } of programs) {
    const passesMap = part.includes(" --import-map import_map.json --lock deno.lock --frozen ");
    assertEquals(passesMap, graph.foreignTo(file).length > 0, `The import map of task ${name}, which runs ${file}`);
  }
});

test("deno task demo downloads nothing", { skip, long: true }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "poolpass-first-"));
  try {
    const unreachable = "http://127.0.0.1:9/";
    const { stdout, stderr } = await deno(["task", "demo", "--bytes", "1MiB"], {
      HOME: folder,
      DENO_DIR: join(folder, "cache"),
      NPM_CONFIG_REGISTRY: unreachable,
      JSR_URL: unreachable,
      POOLPASS_DRIVER: "software",
      // Otherwise a proxy would be asked instead.
      NO_PROXY: "127.0.0.1",
    });
    assertMatch(stdout, /All 1048576 bytes are right/);
    assertEquals(stderr.includes("Download"), false, stderr);
    const cached = readdirSync(join(folder, "cache"), { encoding: "utf8", recursive: true });
    assertEquals(cached.filter((path) => /^(npm|remote)\/./.test(path)), []);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

interface ModuleGraph {
  /**
   * Returns the imports of an entry module and of the project's modules that it imports which belong neither to the
   * project nor to the runtime.
   */
  foreignTo(entry: string): string[];
}

interface ModuleInfo {
  readonly specifier: string;
  readonly error?: string;
  readonly dependencies?: readonly {
    readonly specifier: string;
    readonly code?: { readonly specifier?: string };
    readonly type?: { readonly specifier?: string };
  }[];
}

/** Returns the module graph of modules of this project, as Deno reports it without the import map. */
async function graphOf(entries: readonly string[]): Promise<ModuleGraph> {
  const folder = mkdtempSync(join(tmpdir(), "poolpass-graph-"));
  try {
    const all = join(folder, "all.ts");
    writeFileSync(all, entries.map((entry) => `import "${new URL(entry, root)}";\n`).join(""));
    const { stdout } = await deno(["info", "--json", all], {});
    const { modules } = JSON.parse(stdout) as { modules: readonly ModuleInfo[] };
    return { foreignTo: (entry) => foreignImports(modules, new URL(entry, root).href) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function foreignImports(modules: readonly ModuleInfo[], entry: string): string[] {
  const found: string[] = [];
  const reached = new Set([entry]);
  for (const url of reached) {
    const module = modules.find(({ specifier }) => specifier === url);
    if (module === undefined || module.error !== undefined) throw new Error(`Deno reports no module ${url}`);
    for (const { specifier, code, type } of module.dependencies ?? []) {
      const target = (code ?? type)?.specifier;
      if (target?.startsWith(root.href)) reached.add(target);
      else if (!specifier.startsWith("node:")) found.push(`${url.slice(root.href.length)} imports ${specifier}`);
    }
  }
  return found;
}

function deno(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ stdout: string; stderr: string }> {
  // The graph of all tasks' modules is larger than the default maximum of a child's output.
  const options = { cwd: fileURLToPath(root), env: { ...process.env, NO_COLOR: "1", ...env }, maxBuffer: 2 ** 26 };
  return promisify(execFile)(process.execPath, [...args], options);
}

function readJson<Type>(path: string): Type {
  return JSON.parse(read(path));
}

function read(path: string): string {
  return readFileSync(new URL(path, root), "utf8");
}
