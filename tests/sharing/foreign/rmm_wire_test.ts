import { assertEquals, assertStringIncludes } from "@std/assert";
import { execFile, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startScript } from "../../support/child_process.ts";
import { driverNamed } from "../../support/drivers.ts";
import { test } from "../../support/test.ts";

const cuda = driverNamed("cuda");
const skip = cuda.skip || (hasNvcc() ? false : "nvcc is not installed");
const byteLength = 10_000_003;
const writers = 3;

function hasNvcc(): boolean {
  try {
    execFileSync("nvcc", ["--version"]);
    return true;
  } catch {
    return false;
  }
}

interface Finished {
  readonly code: number;
  readonly output: string;
}

/** Runs one of the C++ programs of `rmm_peer.cu`. */
function runPeer(program: string, args: readonly string[]): Promise<Finished> {
  return new Promise((resolve) =>
    execFile(
      program,
      args,
      { timeout: 60_000 },
      (error, output, errors) =>
        resolve({ code: error === null ? 0 : Number(error.code ?? 1), output: output + errors }),
    )
  );
}

async function inFolder(body: (folder: string, program: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "poolpass-rmm-"));
  try {
    const program = join(folder, "rmm_peer");
    execFileSync("nvcc", [
      "-arch=native",
      "-o",
      program,
      fileURLToPath(new URL("./rmm_wire/rmm_peer.cu", import.meta.url)),
    ]);
    await body(folder, program);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function untilFile(path: string): Promise<void> {
  for (let waited = 0; !existsSync(path); waited += 10) {
    if (waited > 30_000) throw new Error(`Nobody listens at ${path}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

test("a C++ exporter verifies what our importer wrote", { skip }, () =>
  inFolder(async (folder, program) => {
    const path = join(folder, "cpp.sock");
    const exporting = runPeer(program, ["export", "0", String(byteLength), path, String(writers)]);
    await untilFile(path);
    // The path exists a moment before the C++ program listens.
    let importer = startScript("../examples/pool_importer.ts", ["0", "0", "0", "0", path]);
    while (await importer.ended !== 0 && (await importer.errors()).includes("nothing listens")) {
      importer = startScript("../examples/pool_importer.ts", ["0", "0", "0", "0", path]);
    }
    assertEquals(await importer.ended, 0, await importer.errors());
    const { code, output } = await exporting;
    assertEquals(code, 0, output);
    assertStringIncludes(output, `all ${byteLength} bytes of ${writers} writers are right`);
  }));

test("our exporter verifies what a C++ importer wrote", { skip }, () =>
  inFolder(async (folder, program) => {
    const path = join(folder, "ours.sock");
    await using exporter = startScript("../examples/pool_exporter.ts", [
      "0",
      String(byteLength),
      path,
      "--verify",
      String(writers),
    ]);
    await untilFile(path);
    const { code, output } = await runPeer(program, ["import", "0", path, ..."0".repeat(writers)]);
    assertEquals(code, 0, output);
    assertEquals(await exporter.ended, 0, await exporter.errors());
  }));
