/**
 * Builds the npm package, packs it, installs it in an empty project, and uses it there as a user would:
 *
 *     deno task package:try
 *
 * TypeScript checks the project by two ways of resolving modules; Node, Bun and Deno run its scripts, and each of them
 * shares a buffer with the next. Then Deno imports the built files by URL. Prints what it did; exits 1 where anything
 * fails. Needs npx, and reads nothing from the network but the tools that npx does not have yet.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { buildPackage, destination } from "./build.ts";
import { forUsers, type Source } from "./imports.ts";
import { patience, run, type RunOptions, runTool } from "./tools.ts";

/** A runtime that the package is for. */
interface Runtime {
  readonly name: string;
  /** What a script's path is added to. */
  readonly command: readonly string[];
}

const scripts = new URL("project/", import.meta.url);
/** What the scripts need of Node's types, which an empty project does not have. */
const nodeTypes = `declare module "node:process" {
  const process: { readonly argv: readonly string[] };
  export default process;
}
`;

async function tryPackage(folder: string): Promise<void> {
  const project = `${folder}/project`;
  await buildPackage();
  await install(project);
  for (const moduleResolution of ["nodenext", "bundler"]) await checkTypes(project, moduleResolution);
  const runtimes = await findRuntimes();
  for (const runtime of runtimes) await compute(project, runtime);
  for (const [index, exporter] of runtimes.entries()) {
    await share(project, { exporter, importer: runtimes[(index + 1) % runtimes.length]! });
  }
  await importFromUrl(`${folder}/by-url`);
}

async function install(project: string): Promise<void> {
  await Deno.mkdir(project);
  const packed = await run(["npm", "pack", "--json", "--pack-destination", project], {
    cwd: fileURLToPath(destination),
  });
  const [{ filename, size, unpackedSize, entryCount }] = JSON.parse(packed);
  console.log(`${filename}: ${size} bytes, ${unpackedSize} unpacked, ${entryCount} files`);
  await Deno.writeTextFile(`${project}/package.json`, JSON.stringify({ private: true, type: "module" }));
  await run(["npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", `./${filename}`], {
    cwd: project,
  });
  await copyScripts(project);
  await Deno.writeTextFile(`${project}/node.d.ts`, nodeTypes);
}

/** Writes the scripts as users would have written them. */
async function copyScripts(folder: string, source?: Source): Promise<void> {
  for await (const { name } of Deno.readDir(scripts)) {
    const text = forUsers(await Deno.readTextFile(new URL(name, scripts)), source);
    await Deno.writeTextFile(`${folder}/${name}`, text);
  }
}

async function checkTypes(project: string, moduleResolution: string): Promise<void> {
  const compilerOptions = {
    target: "esnext",
    lib: ["esnext", "dom"],
    module: moduleResolution === "bundler" ? "esnext" : moduleResolution,
    moduleResolution,
    strict: true,
    noEmit: true,
    skipLibCheck: false,
    types: [],
  };
  await Deno.writeTextFile(`${project}/tsconfig.json`, JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  await runTool("tsc", ["-p", project]);
  await Deno.remove(`${project}/tsconfig.json`);
  console.log(`tsc: the types are found by moduleResolution "${moduleResolution}"`);
}

async function findRuntimes(): Promise<Runtime[]> {
  const [node, bun] = await Promise.all([
    runTool("node", ["-p", "process.execPath"]),
    runTool("bun", ["-e", "console.log(process.execPath)"]),
  ]);
  const named = async (name: string, program: string, ...flags: string[]): Promise<Runtime> => {
    const version = /\d+(?:\.\d+)+/.exec(await run([program, "--version"]))![0];
    return { name: `${name} ${version}`, command: [program, ...flags] };
  };
  return await Promise.all([
    named("Node", node.trim()),
    named("Bun", bun.trim()),
    named("Deno", Deno.execPath(), "run", "--no-prompt", "--no-lock", "--allow-ffi"),
  ]);
}

async function compute(project: string, { name, command }: Runtime): Promise<void> {
  const output = await run([...command, "compute.ts"], { cwd: project });
  expect(output, "software 12 24 36\n", `${name}: compute.ts`);
}

async function share(
  project: string,
  { exporter, importer }: { exporter: Runtime; importer: Runtime },
): Promise<void> {
  const path = `${project}/share.sock`;
  const [program, ...args] = [...exporter.command, "export.ts", path];
  // It ends by itself when the importer has gone, and here where that has failed.
  await using child = new Deno.Command(program!, {
    args,
    cwd: project,
    stdin: "null",
    stdout: "piped",
    signal: AbortSignal.timeout(patience),
  }).spawn();
  const output = child.stdout.pipeThrough(new TextDecoderStream());
  const { value = "" } = await output.values().next();
  expect(value, "ready\n", `${exporter.name}: export.ts`);
  const what = `${importer.name} from ${exporter.name}: import.ts`;
  expect(await run([...importer.command, "import.ts", path], { cwd: project }), "3 6 9\n", what);
  const { code } = await child.status;
  if (code !== 0) throw new Error(`${exporter.name}: export.ts exited with ${code}`);
}

/** Deno takes the built files from a server, in a folder that has nothing else, with an empty cache. */
async function importFromUrl(folder: string): Promise<void> {
  await Deno.mkdir(folder);
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, serveFile);
  const host = `127.0.0.1:${server.addr.port}`;
  await copyScripts(folder, { main: `http://${host}/poolpass.js`, kernels: `http://${host}/kernels` });
  const options: RunOptions = { cwd: folder, env: { DENO_DIR: `${folder}/cache`, NO_PROXY: "127.0.0.1" } };
  const output = await run(
    [Deno.execPath(), "run", "--no-prompt", "--no-lock", "--allow-ffi", `--allow-import=${host}`, "compute.ts"],
    options,
  );
  expect(output, "software 12 24 36\n", "Deno by URL: compute.ts");
  await run([Deno.execPath(), "check", "--no-lock", `--allow-import=${host}`, "types.ts"], options);
  console.log("Deno by URL: the types are found");
}

async function serveFile(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  try {
    const type = pathname.endsWith(".js") ? "text/javascript" : "application/typescript";
    return new Response(await Deno.readFile(new URL(`.${pathname}`, destination)), {
      headers: { "content-type": type },
    });
  } catch {
    return new Response(null, { status: 404 });
  }
}

function expect(output: string, expected: string, what: string): void {
  if (output !== expected) {
    throw new Error(`${what} printed ${JSON.stringify(output)}, not ${JSON.stringify(expected)}`);
  }
  console.log(`${what} printed ${JSON.stringify(output.trimEnd())}`);
}

const folder = await Deno.makeTempDir({ prefix: "poolpass-package-" });
try {
  await tryPackage(folder);
  console.log("The package works");
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  Deno.exitCode = 1;
} finally {
  await Deno.remove(folder, { recursive: true });
}
