/**
 * Makes executables of the scripts in `packaging/project/`, as users do who deploy one file or a container image.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { npmPackage, root, urlFolder } from "./build.ts";
import { forUsers } from "./imports.ts";
import { pathOf, run, runTool } from "./tools.ts";

/** Compiles a script to an executable. */
type Compile = (script: string, executable: string) => Promise<unknown>;

const compute = "packaging/project/compute.ts";

/**
 * Compiles the scripts of a project with Bun and, if Deno can download what it needs, with Deno.
 *
 * @returns for each compiler, its name and the folder of the executables
 */
export async function compileProject(
  project: string,
  folder: string,
): Promise<{ name: string; executables: string }[]> {
  const compilers: [name: string, compile: Compile][] = [["bun build --compile", compileWithBun]];
  if (await findsDenoRuntime(project, folder)) compilers.push(["deno compile", compileWithDeno]);
  const others: [source: string, script: string][] = [
    ["a clone", fileURLToPath(new URL(compute, root))],
    ["poolpass.js", await scriptBesideOneFile(folder)],
  ];
  const compiled: { name: string; executables: string }[] = [];
  for (const [index, [name, compile]] of compilers.entries()) {
    const executables = `${folder}/${index}`;
    for (const script of ["compute", "export", "import"]) {
      await compile(`${project}/${script}.ts`, `${executables}/${script}`);
    }
    for (const [source, script] of others) {
      await compile(script, `${executables}/other`);
      console.log(`${name}, with ${source}: ${(await run([`${executables}/other`])).trimEnd()}`);
    }
    compiled.push({ name, executables });
  }
  return compiled;
}

function compileWithBun(script: string, executable: string): Promise<unknown> {
  return runTool("bun", ["build", "--compile", script, "--outfile", executable]);
}

function compileWithDeno(script: string, executable: string, env?: Record<string, string>): Promise<unknown> {
  const command = ["compile", "--no-check", "--no-lock", "--allow-ffi", "--output", executable, script];
  return run([Deno.execPath(), ...command], { env });
}

/** `deno compile` downloads the runtime that it puts into executables. Without a network, its other half is tried. */
async function findsDenoRuntime(project: string, folder: string): Promise<boolean> {
  const [script, executable] = [`${project}/compute.ts`, `${folder}/deno`];
  try {
    await compileWithDeno(script, executable);
    return true;
  } catch (error) {
    if (!/Setting up base binary/.test(String(error))) throw error;
  }
  // Deno itself in place of that runtime makes a file that does not run the script.
  await compileWithDeno(script, executable, { DENORT_BIN: Deno.execPath() });
  console.log("deno compile: embeds the script; not run, because its runtime (denort) cannot be downloaded here");
  return false;
}

/** Writes the script beside the one file that has the whole library. */
async function scriptBesideOneFile(folder: string): Promise<string> {
  const project = `${folder}/one-file`;
  await Deno.mkdir(project, { recursive: true });
  await Deno.copyFile(new URL("poolpass.js", urlFolder), `${project}/poolpass.js`);
  await Deno.copyFile(new URL("kernels/saxpy.js", npmPackage), `${project}/saxpy.js`);
  const text = forUsers(await Deno.readTextFile(new URL(compute, root)), { main: "./poolpass.js", kernels: "." });
  await Deno.writeTextFile(`${project}/compute.ts`, text);
  return `${project}/compute.ts`;
}

/**
 * Runs the commands of the Dockerfile in `docs/containers.md` with a script as `main.ts`, copies what it copies to the
 * second stage into an empty folder with the C library, and runs it there as root, without network.
 *
 * @param project the folder with the script `compute.ts` and the package
 * @returns what the program has printed; undefined if processes cannot have namespaces here
 */
export async function runImage(project: string, folder: string): Promise<string | undefined> {
  const page = await Deno.readTextFile(new URL("docs/containers.md", root));
  const lines = /^```dockerfile\n(.*?)^```$/ms.exec(page)![1]!.split("\n");
  const [build, image] = [`${folder}/build`, `${folder}/root`];
  await run(["cp", "-r", project, build]);
  await Deno.rename(`${build}/compute.ts`, `${build}/main.ts`);
  await Deno.mkdir(`${image}/proc`, { recursive: true });
  await Deno.mkdir(`${folder}/bin`);
  await Deno.symlink(await pathOf("bun"), `${folder}/bin/bun`);
  let command: string[] = [];
  for (const line of lines) {
    const [, instruction, rest] = /^(\w+) (.*)$/.exec(line) ?? [];
    if (instruction === "RUN") {
      await run(["sh", "-c", rest!], { cwd: build, env: { PATH: `${folder}/bin:${Deno.env.get("PATH")}` } });
    } else if (instruction === "CMD") {
      command = JSON.parse(rest!);
    } else if (rest?.startsWith("--from=build ")) {
      const [, from, to] = rest.split(" ");
      await Deno.copyFile(from!.replace("/app", build), image + to);
    }
  }
  for (const [library] of (await run(["ldd", image + command[0]])).matchAll(/\/\S+/g)) {
    await run(["install", "-D", library, image + library]);
  }
  const container = ["unshare", "--map-root-user", "--pid", "--fork", "--mount", "--net", `--mount-proc=${image}/proc`];
  if (!await run([...container, "true"]).then(() => true, () => false)) return undefined;
  return await run([...container, "chroot", image, ...command]);
}
