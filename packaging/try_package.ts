/**
 * Builds the npm and the JSR package, installs each in an empty project, and uses them as a user would:
 *
 *     deno task package:try
 *
 * For npm, the package is packed first, and `npm publish --dry-run` checks it. TypeScript checks the project with two
 * settings of `moduleResolution`, and Node, Bun and Deno run the scripts. For JSR, `deno publish --dry-run` checks the
 * package, and Deno checks the project, runs the scripts and shows the documentation. Each of these runtimes shares
 * a buffer with the next one, and so do executables that Bun and Deno make of the scripts. Finally, Deno imports the
 * built files by URL, and the image of `docs/containers.md` runs in an empty folder. Prints what it does, and exits with status 1
 * if anything fails. Needs npx, and uses the network only to ask npm for the versions that it has, if that answers, and
 * to download tools that npx does not have yet.
 *
 * @module
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildPackages, jsrPackage, npmPackage, root, urlFolder } from "./build.ts";
import { forUsers, modulesBeside, type Source } from "./imports.ts";
import { installFromJsr, installFromNpm } from "./install.ts";
import { publishCommands } from "./publishing.ts";
import { pathOf, run, type RunOptions, runTool, timeout } from "./tools.ts";
import { compileProject, runImage } from "./try_executables.ts";
import { answerHelp } from "../tests/support/program_help.ts";

answerHelp(import.meta.url);

/** A runtime with an installed package. */
interface Runtime {
  readonly name: string;
  /** Returns the command line that runs a script of the project, such as "compute.ts". */
  readonly command: (script: string) => readonly string[];
  /** The folder of the project in which the package is installed. */
  readonly project: string;
}

const scripts = new URL("project/", import.meta.url);
/** The specifiers of the package on JSR. */
const jsrNames: Source = { main: "@poolpass/poolpass", kernels: "@poolpass/poolpass/kernels" };
/** The types of Node's modules that the scripts use. An empty project does not have them. */
const nodeTypes = `declare module "node:process" {
  const process: { readonly argv: readonly string[] };
  export default process;
}
`;

async function tryPackages(folder: string): Promise<void> {
  const [fromNpm, fromJsr] = [`${folder}/npm`, `${folder}/jsr`];
  await buildPackages();
  await prepareNpmProject(fromNpm);
  await prepareJsrProject(fromJsr);
  const installed = await findRuntimes({ fromNpm, fromJsr });
  for (const runtime of installed) await readFiles(runtime);
  const runtimes = [...installed, ...await executables(fromNpm, `${folder}/executables`)];
  for (const runtime of runtimes) await compute(runtime);
  await bindKernels(fromNpm);
  await refuseOldNode(fromNpm);
  for (const [index, exporter] of runtimes.entries()) {
    await share({ exporter, importer: runtimes[(index + 1) % runtimes.length]!, path: `${folder}/share.sock` });
  }
  await importFromUrl(`${folder}/by-url`);
  await useImage(fromNpm, `${folder}/image`);
}

async function prepareNpmProject(project: string): Promise<void> {
  const { filename, size, unpackedSize, entryCount } = await installFromNpm(project);
  console.log(`${filename}: ${size} bytes, ${unpackedSize} unpacked, ${entryCount} files`);
  await publishToNpm();
  await copyScripts(project);
  await Deno.writeTextFile(`${project}/node.d.ts`, nodeTypes);
  for (const moduleResolution of ["nodenext", "bundler"]) await checkTypes(project, moduleResolution);
}

/** Publishes the npm package as far as that goes without an account. It fails if npm would correct the manifest. */
async function publishToNpm(): Promise<void> {
  const command = [...publishCommands.npm, "--dry-run"];
  const output = await run(["sh", "-c", '"$@" 2>&1', "sh", ...command], {
    cwd: fileURLToPath(npmPackage),
    env: { npm_config_fetch_retries: "0" },
  });
  if (output.includes("auto-corrected")) throw new Error(`npm corrects the manifest:\n${output}`);
  console.log(`${command.join(" ")}: accepts ${/^\+ (\S+)$/m.exec(output)![1]}`);
}

async function prepareJsrProject(project: string): Promise<void> {
  console.log(`deno publish --dry-run: accepts all ${(await publishedFiles()).length} files`);
  await checkDescriptions();
  await installFromJsr(project);
  await copyScripts(project, jsrNames);
  await run([Deno.execPath(), "check", "--no-lock", "types.ts"], { cwd: project });
  console.log("deno check: the types are found");
  const published = new Set(
    await documentationOf(["poolpass", ...modulesBeside].map((name) => `${name}.js`), jsrPackage),
  );
  const documented = await documentationOf(["mod", ...modulesBeside].map((name) => `${name}.ts`), root);
  const written = documented.map((text) => forUsers(text, jsrNames));
  const lost = written.filter((text) => !published.has(text));
  if (lost.length > 0) throw new Error(`The JSR package does not document ${JSON.stringify(lost[0])}`);
  console.log(`deno doc: shows all ${written.length} doc comments`);
}

/** Returns the files that `deno publish` would send. It fails if a public type is slow to infer. */
async function publishedFiles(): Promise<string[]> {
  const [, ...publish] = publishCommands.jsr;
  const command = [Deno.execPath(), ...publish, "--dry-run", "--allow-dirty"];
  const output = await run(["sh", "-c", '"$@" 2>&1', "sh", ...command], { cwd: fileURLToPath(jsrPackage) });
  const published = [...output.matchAll(/^ +file:\/\/(\S+) /gm)].map(([, path]) => path!);
  const built = readdirSync(jsrPackage, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const slow = /^warning\[.*$/m.exec(output)?.[0];
  if (slow !== undefined) throw new Error(`deno publish warns: ${slow}\n${output}`);
  const missing = built.map(({ parentPath, name }) => join(parentPath, name)).filter((path) =>
    !published.includes(path)
  );
  if (missing.length > 0) throw new Error(`deno publish leaves out ${missing.join(", ")}`);
  return published;
}

/** Checks that users see a description of each module that the JSR package exports. */
async function checkDescriptions(): Promise<void> {
  const { exports } = JSON.parse(await Deno.readTextFile(new URL("deno.json", jsrPackage)));
  const paths = Object.values<string>(exports);
  const cwd = fileURLToPath(jsrPackage);
  for (const path of paths) {
    const { nodes } = JSON.parse(await run([Deno.execPath(), "doc", "--json", path], { cwd })) as {
      nodes: Readonly<Record<string, { readonly module_doc?: { readonly doc?: string } }>>;
    };
    const described = Object.values(nodes).some(({ module_doc: documentation }) => documentation?.doc !== undefined);
    if (!described) throw new Error(`${path} of the JSR package has no description with @module`);
  }
  console.log(`deno doc: shows a description of all ${paths.length} modules`);
}

/** Returns every doc comment that Deno shows for modules, their exports and their members. */
async function documentationOf(paths: readonly string[], folder: URL): Promise<string[]> {
  const texts: string[] = [];
  JSON.parse(await run([Deno.execPath(), "doc", "--json", ...paths], { cwd: fileURLToPath(folder) }), (key, value) => {
    if (key === "doc" && typeof value === "string") texts.push(value);
    return value;
  });
  return texts;
}

/** Writes the scripts with the imports that a user would write. */
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

async function findRuntimes({ fromNpm, fromJsr }: { fromNpm: string; fromJsr: string }): Promise<Runtime[]> {
  const [node, bun] = await Promise.all([pathOf("node"), pathOf("bun")]);
  const denoFlags = ["run", "--no-prompt", "--no-lock", "--allow-ffi"];
  const named = async (name: string, project: string, [program, ...flags]: [string, ...string[]]): Promise<Runtime> => {
    const version = /\d+(?:\.\d+)+/.exec(await run([program, "--version"]))![0];
    const command = (script: string) => [program, ...flags, script];
    return { name: name.replace(/^\w+/, `$& ${version}`), command, project };
  };
  return await Promise.all([
    named("Node", fromNpm, [node]),
    named("Bun", fromNpm, [bun]),
    named("Deno", fromNpm, [Deno.execPath(), ...denoFlags]),
    named("Deno with JSR", fromJsr, [Deno.execPath(), ...denoFlags]),
  ]);
}

/** Executables that were compiled from the scripts of the project. They need none of its files. */
async function executables(project: string, folder: string): Promise<Runtime[]> {
  await Deno.mkdir(`${folder}/empty`, { recursive: true });
  return (await compileProject(project, folder)).map(({ name, executables }) => ({
    name,
    command: (script) => [`${executables}/${script.replace(/\.ts$/, "")}`],
    project: `${folder}/empty`,
  }));
}

async function useImage(project: string, folder: string): Promise<void> {
  await Deno.mkdir(folder);
  const output = await runImage(project, folder);
  if (output === undefined) console.log("The image of docs/containers.md: not tried, because unshare is not permitted");
  else expect(output, "software 12 24 36\n", "The image of docs/containers.md");
}

async function compute({ name, command, project }: Runtime): Promise<void> {
  const output = await run(command("compute.ts"), { cwd: project });
  expect(output, "software 12 24 36\n", `${name}: compute.ts`);
}

async function readFiles({ name, command, project }: Runtime): Promise<void> {
  const output = await run(command("files.ts"), { cwd: project });
  expect(output, "true 1 2 bfloat16 16256 16384\n", `${name}: files.ts`);
}

/** The program that npm installs binds PTX, which needs no compiler, to a module that the package's types accept. */
async function bindKernels(project: string): Promise<void> {
  await Deno.copyFile(new URL("kernels/saxpy.ptx", root), `${project}/saxpy.ptx`);
  const output = await runTool("node", ["node_modules/.bin/poolpass", "bind", "saxpy.ptx"], { cwd: project });
  expect(output, "saxpy.ts: saxpy\n", "Node: poolpass bind");
}

/** An import on an old version of Node says so, although that version does not know all syntax of the sources. */
async function refuseOldNode(project: string): Promise<void> {
  const script = 'import("poolpass").catch((error) => console.log(error.message.replace(/[\\d.]+ is/, "is")))';
  const output = await runTool("oldNode", ["-e", script], { cwd: project });
  const refusal =
    "Cannot run here: Node is too old; use Deno 2.9, Bun 1.4, Node 26.10 or newer, as in npx -y -p node@26.10 node FILE\n";
  expect(
    output,
    refusal,
    "Node 20: import of poolpass",
  );
  const failure = await runTool("oldNode", ["node_modules/.bin/poolpass"], { cwd: project }).catch(({ message }) =>
    message
  );
  const printed = String(failure).split("\n").slice(1).join("\n").replace(/[\d.]+ is/, "is");
  expect(printed, refusal, "Node 20: the program poolpass");
}

async function share(
  { exporter, importer, path }: { exporter: Runtime; importer: Runtime; path: string },
): Promise<void> {
  const [program, ...args] = [...exporter.command("export.ts"), path];
  // Exits when the importer disconnects. If that fails, the child process is killed at the end of this function.
  await using child = new Deno.Command(program!, {
    args,
    cwd: exporter.project,
    stdin: "null",
    stdout: "piped",
    signal: AbortSignal.timeout(timeout),
  }).spawn();
  const output = child.stdout.pipeThrough(new TextDecoderStream());
  const { value = "" } = await output.values().next();
  expect(value, "ready\n", `${exporter.name}: export.ts`);
  const what = `${importer.name} from ${exporter.name}: import.ts`;
  expect(await run([...importer.command("import.ts"), path], { cwd: importer.project }), "3 6 9\n", what);
  const { code } = await child.status;
  if (code !== 0) throw new Error(`${exporter.name}: export.ts exited with ${code}`);
}

/**
 * Imports the built files from a server into a folder without other files, with an empty cache. The whole library is one
 * request, and its types are one more.
 */
async function importFromUrl(folder: string): Promise<void> {
  await Deno.mkdir(folder);
  let requests: string[] = [];
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { pathname } = new URL(request.url);
    requests.push(pathname);
    return await serveFile(pathname);
  });
  const host = `127.0.0.1:${server.addr.port}`;
  await copyScripts(folder, {
    main: `http://${host}/poolpass.js`,
    kernels: `http://${host}/kernels`,
    part: (name) => `http://${host}/${name}.js`,
  });
  const options: RunOptions = { cwd: folder, env: { DENO_DIR: `${folder}/cache`, NO_PROXY: "127.0.0.1" } };
  const denied = ["read", "write", "net", "env", "sys", "run"].map((name) => `--deny-${name}`);
  const output = await run(
    [
      Deno.execPath(),
      "run",
      "--no-prompt",
      "--no-lock",
      "--allow-ffi",
      ...denied,
      `--allow-import=${host}`,
      "compute.ts",
    ],
    options,
  );
  expect(output, "software 12 24 36\n", "Deno by URL: compute.ts");
  const requested = requests.sort().join(" ");
  if (requested !== "/kernels/saxpy.js /poolpass.js") throw new Error(`Deno by URL: requests ${requested}`);
  requests = [];
  await run([Deno.execPath(), "check", "--no-lock", `--allow-import=${host}`, "types.ts"], options);
  const types = requests.filter((path) => path === "/poolpass.d.ts").length;
  if (types !== 1) throw new Error(`Deno by URL: requests the types ${types} times`);
  console.log("Deno by URL: the types are found");
}

/** Serves what `dist/url/` has from there, and the other modules from the npm package. */
async function serveFile(path: string): Promise<Response> {
  const folder = path.startsWith("/poolpass.") ? urlFolder : npmPackage;
  const type = path.endsWith(".js") ? "text/javascript" : "application/typescript";
  try {
    return new Response(await Deno.readFile(new URL(`.${path}`, folder)), { headers: { "content-type": type } });
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
  await tryPackages(folder);
  console.log("The packages work");
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  Deno.exitCode = 1;
} finally {
  await Deno.remove(folder, { recursive: true });
}
