import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { test } from "../support/test.ts";
import { type CellOutput, JupyterKernel } from "./jupyter_kernel.ts";

interface Cell {
  readonly cell_type: "code" | "markdown";
  readonly source: readonly string[];
  readonly outputs?: readonly unknown[];
  readonly execution_count?: number | null;
}

const folder = fileURLToPath(new URL("../../examples/notebooks/", import.meta.url));
const { cells }: { cells: readonly Cell[] } = JSON.parse(readFileSync(`${folder}arrays.ipynb`, "utf8"));
const code = cells.filter(({ cell_type: type }) => type === "code");

/** Why the notebook cannot be executed here. */
function refusal(): string | undefined {
  if (!("Deno" in globalThis)) return "only Deno has the kernel";
  const packages = code.flatMap(({ source }) => source.join("").match(/(?<=")npm:[^"]+/g) ?? []);
  const { status } = spawnSync(process.execPath, ["cache", "--quiet", ...packages], { cwd: folder });
  return status === 0 ? undefined : `${packages.join(" and ")} cannot be had`;
}

test("a notebook in deno jupyter shows a device, arrays and a kernel, and plots", { skip: refusal() }, async () => {
  await using kernel = await JupyterKernel.start(process.execPath, folder);
  const shown: CellOutput[][] = [];
  for (const { source } of code) shown.push(await kernel.execute(source.join("")));
  // Until this cell is done, the results of the others have been published.
  await kernel.execute("0");
  assertEquals(shown.flat().filter(({ type }) => type === "error"), []);
  const results = shown.map((outputs) => outputs.find(({ type }) => type === "execute_result")!);
  const [device, wave, sum, saxpy, map, pool, plot, disposed] = results.map(({ data }) => data);
  assertMatch(device!["text/plain"]!, /^CudaDevice \{/);
  assertMatch(wave!["text/plain"]!, /^DeviceArray \{ device 0, Float32Array\(100000\), .*\n\[0, 0\.0002, 0\.0004, /);
  assertStringIncludes(wave!["text/html"]!, "<svg ");
  assertMatch(sum!["text/plain"]!, /\n\[0, 0\.00011, 0\.00022, .*, 1\.45\d+\]$/);
  assertMatch(saxpy!["text/plain"]!, /saxpy\(/);
  assertStringIncludes(map!["text/html"]!, 'viewBox="0 0 32 32"');
  assertMatch(pool!["text/plain"]!, /3 buffers/);
  assertMatch(plot!["text/html"]!, /^<svg [\s\S]*stroke="steelblue"[\s\S]*d="M[\d.]+,[\d.]+L[\s\S]*stroke="orangered"/);
  assertMatch(disposed!["text/plain"]!, /\nnot read: /);
});

test("notebooks are kept without outputs", () => {
  assert(code.length > 5);
  assertEquals(code.filter(({ outputs, execution_count: count }) => outputs?.length !== 0 || count !== null), []);
});
