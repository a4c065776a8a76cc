/**
 * Puts the packages that `deno task package` has built into empty projects.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { jsrPackage, npmPackage } from "./build.ts";
import { run } from "./tools.ts";

/** What `npm pack` says of the file that it makes. */
export interface PackedFile {
  readonly filename: string;
  /** In bytes. */
  readonly size: number;
  readonly unpackedSize: number;
  readonly entryCount: number;
}

/** Packs the npm package and installs it in a project, a folder that this creates. */
export async function installFromNpm(project: string): Promise<PackedFile> {
  await Deno.mkdir(project);
  const packed = await run(["npm", "pack", "--json", "--pack-destination", project], {
    cwd: fileURLToPath(npmPackage),
  });
  const [file] = JSON.parse(packed) as [PackedFile];
  await writeJson(`${project}/package.json`, { private: true, type: "module" });
  await run(["npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", `./${file.filename}`], {
    cwd: project,
  });
  return file;
}

/**
 * Makes a project, a folder that this creates, of `deno add jsr:@poolpass/poolpass`, but that Deno takes the package from
 * the folder in which it was built.
 */
export async function installFromJsr(project: string): Promise<void> {
  const { name, version } = JSON.parse(await Deno.readTextFile(new URL("deno.json", jsrPackage)));
  await Deno.mkdir(project);
  await writeJson(`${project}/deno.json`, {
    imports: { [name]: `jsr:${name}@^${version}` },
    links: [fileURLToPath(jsrPackage)],
  });
}

function writeJson(path: string, value: unknown): Promise<void> {
  return Deno.writeTextFile(path, JSON.stringify(value));
}
