import { assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { scriptCommand, startCommand, type StartOptions } from "../support/child_process.ts";
import { driverNamed } from "../support/drivers.ts";
import { test } from "../support/test.ts";

const isDeno = "Deno" in globalThis;
const skip = driverNamed("cuda").skip === false && "there is a GPU";
/** `script` of util-linux runs a command with a pseudo terminal. */
const skipWithoutScript = skip ||
  (spawnSync("script", ["-qec", "true", "/dev/null"]).status !== 0 && "there is no script of util-linux");
const noLibrary = "no libcuda.so.1 was found; install the NVIDIA driver, or add its folder to LD_LIBRARY_PATH " +
  "(/usr/lib/wsl/lib under WSL 2)";
const refused = "FFI is not permitted; run with --allow-ffi";
const withFfi = ["--allow-ffi", "--allow-read", "--allow-env"];
/** Node prints a warning that FFI is experimental, and Bun prints in color, unless these are set. */
const env = { POOLPASS_DRIVER: "", POOLPASS_LOG: "", NODE_NO_WARNINGS: "1", NO_COLOR: "1" };

interface FallbackOptions extends Pick<StartOptions, "env" | "permissions"> {
  readonly terminal: boolean;
}

/** Opens the default driver twice in each of the threads. Returns every byte of standard error. */
async function errorsOf(threads: readonly string[], options: FallbackOptions): Promise<string> {
  const { permissions = withFfi, terminal } = options;
  const command = scriptCommand("children/open_in_threads.ts", threads, { permissions });
  const quoted = command.map((part) => `'${part}'`).join(" ");
  const program = terminal ? ["script", "-qec", `${quoted} >/dev/null`, "/dev/null"] : command;
  await using child = startCommand(program, { env: { ...env, ...options.env } });
  assertEquals(await child.ended, 0, await child.errors());
  if (!terminal) return await child.errors();
  let text = "";
  for (let line = await child.nextLine(); line !== undefined; line = await child.nextLine()) text += `${line}\n`;
  return text + await child.errors();
}

function lineOf(reason: string): string {
  return `poolpass: running on the software device, not on a GPU: ${reason}. To choose it without this message, set ` +
    'POOLPASS_DRIVER=software or call open({ driver: "software" })\r\n';
}

test(
  "on a terminal, one line says that the software device is used, and why",
  { skip: skipWithoutScript },
  async () => {
    assertEquals(await errorsOf(["main"], { terminal: true }), lineOf(noLibrary));
  },
);

test("Workers do not repeat the line", { skip: skipWithoutScript }, async () => {
  assertEquals(await errorsOf(["main", "first", "second"], { terminal: true }), lineOf(noLibrary));
  assertEquals(await errorsOf(["first", "second", "main"], { terminal: true }), lineOf(noLibrary));
});

test(
  "without permission for FFI, the line names the flag, and nothing is asked",
  { skip: skipWithoutScript || (!isDeno && "only Deno asks for permission") },
  async () => {
    const permissions = ["--allow-env", "--allow-read"];
    assertEquals(await errorsOf(["main"], { terminal: true, permissions }), lineOf(refused));
  },
);

test("a requested software device prints no line", { skip: skipWithoutScript }, async () => {
  assertEquals(await errorsOf(["main"], { terminal: true, env: { POOLPASS_DRIVER: "software" } }), "");
  assertEquals(await errorsOf(["main"], { terminal: true, env: { REQUESTED: "1" } }), "");
});

test("where standard error is no terminal, nothing is printed", { skip }, async () => {
  assertEquals(await errorsOf(["main", "first"], { terminal: false }), "");
});

test("with POOLPASS_LOG=1, the log says so once", { skip }, async () => {
  const errors = await errorsOf(["main", "first"], { terminal: false, env: { POOLPASS_LOG: "1" } });
  const lines = errors.split("\n").filter((line) => line !== "").map((line) => line.split("] ")[1]);
  const opened = "open driver=software devices=2";
  const fallback = `fallback device="poolpass software device" reason="${noLibrary}"`;
  assertEquals(lines, [opened, fallback, opened, opened, opened]);
});
