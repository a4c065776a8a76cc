/**
 * Installs the packages that `deno task package` has built in empty projects.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { jsrPackage, npmPackage } from "./build.ts";
import { run } from "./tools.ts";

/** The description that `npm pack` prints of the file that it creates. */
export interface PackedFile {
  readonly filename: string;
  /** The size of the file in bytes. */
  readonly size: number;
  readonly unpackedSize: number;
  readonly entryCount: number;
}

/** Packs the npm package and installs it in a project. Creates the folder of the project. */
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
 * Creates a project as `deno add jsr:@poolpass/poolpass` would leave it, except that Deno takes the package from the
 * folder in which it was built. Creates the folder of the project.
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
