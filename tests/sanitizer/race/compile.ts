/**
 * Compiles the kernels of these tests with nvcc, and writes their PTX, in which files have no folders.
 *
 *     deno run -A tests/sanitizer/race/compile.ts
 *
 * @module
 */
const folders = ["./", "../synchronization/"].map((path) => new URL(path, import.meta.url));
const sources = folders.flatMap((folder) => [...Deno.readDirSync(folder)].map(({ name }) => ({ folder, name })));
for (const { folder, name } of sources) {
  if (!name.endsWith(".cu")) continue;
  const ptx = name.replace(/cu$/, "ptx");
  const usesClusters = Deno.readTextFileSync(new URL(name, folder)).includes("__cluster_dims__");
  const architecture = usesClusters ? "compute_90" : "compute_80";
  const options = ["-ptx", "-lineinfo", `-arch=${architecture}`, name, "-o", ptx];
  const { success, stderr } = new Deno.Command("nvcc", { args: options, cwd: folder }).outputSync();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  const text = Deno.readTextFileSync(new URL(ptx, folder));
  Deno.writeTextFileSync(new URL(ptx, folder), text.replace(/^(\s*\.file\s+\d+ )"[^"]*\/([^/"]+)"/gm, '$1"$2"'));
}
