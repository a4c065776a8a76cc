import { assertEquals, assertMatch } from "@std/assert";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";

const skip = "Deno" in globalThis ? false : "only Deno imports from a URL";
const root = new URL("../", import.meta.url);

const script = (origin: string) => `
import { open } from "${origin}/mod.ts";
import { ptx } from "${origin}/kernels/saxpy.ts";
using cuda = open({ driver: "software" });
const gpu = cuda.device(0);
using pool = gpu.createPool(HANDLE_TYPE);
using x = pool.allocateArray(Float32Array, 3), y = pool.allocateArray(Float32Array, 3);
x.copyFrom(Float32Array.of(1, 2, 3)), y.copyFrom(Float32Array.of(10, 20, 30));
using module = gpu.loadModule(ptx);
module.kernel("saxpy").launch({ grid: 1, block: 32 }, 3, 2, x, y);
console.log(cuda.driver, (await y.toTypedArray()).join(" "));
`;

interface Run {
  code: number;
  output: string;
  errors: string;
}

/** Runs the script in an empty folder, with an empty cache, from a server on loopback that has this project. */
async function runFromUrl(handleType: string, permissions: (host: string) => string[]): Promise<Run> {
  const server = createServer((request, response) => {
    try {
      const text = readFileSync(new URL(`.${request.url}`, root));
      response.writeHead(200, { "content-type": "application/typescript" }).end(text);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const folder = mkdtempSync(join(tmpdir(), "poolpass-url-"));
  try {
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const path = join(folder, "script.ts");
    writeFileSync(path, script(`http://${host}`).replace("HANDLE_TYPE", handleType));
    const args = ["run", "--no-prompt", "--no-lock", "--quiet", ...permissions(host), path];
    const env = { ...process.env, DENO_DIR: join(folder, "cache"), NO_COLOR: "1" };
    return await new Promise<Run>((resolve) =>
      execFile(
        process.execPath,
        args,
        { cwd: folder, env },
        (error, output, errors) => resolve({ code: error === null ? 0 : Number(error.code), output, errors }),
      )
    );
  } finally {
    await new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
    rmSync(folder, { recursive: true });
  }
}

test("a script that imports mod.ts from a URL needs --allow-ffi and nothing else", { skip }, async () => {
  const permissions = (host: string) => ["--allow-ffi", `--allow-import=${host}`];
  const { code, output, errors } = await runFromUrl('{ handleType: "posix-fd" }', permissions);
  assertEquals(errors, "");
  assertEquals([code, output.trim()], [0, "software 12 24 36"]);
});

test("without --allow-ffi the same script works on the software device", { skip }, async () => {
  const { code, output, errors } = await runFromUrl("", (host) => [`--allow-import=${host}`]);
  assertEquals(errors, "");
  assertEquals([code, output.trim()], [0, "software 12 24 36"]);
});

test("without --allow-ffi sharing is refused, with the reason", { skip }, async () => {
  const { code, errors } = await runFromUrl('{ handleType: "posix-fd" }', (host) => [`--allow-import=${host}`]);
  assertEquals(code, 1);
  assertMatch(
    errors,
    /Cannot create a pool that other processes can share: FFI is not permitted; run with --allow-ffi/,
  );
});
