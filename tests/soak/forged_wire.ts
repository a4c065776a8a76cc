/**
 * Lets RMM's importer in `examples/` connect to an exporter in C++ that changes one field of its export data, and prints
 * how the importer ends: it may not end by a signal, or hang.
 *
 *     deno run --allow-all tests/soak/forged_wire.ts
 *
 * Needs a GPU and nvcc. What only the driver can check, the number of the memory, is not tried: see docs/isolation.md.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { formatTable } from "../../examples/table.ts";
import { answerHelp } from "../support/program_help.ts";

answerHelp(import.meta.url, []);

const byteLength = 64 * 2 ** 20;
const importerTimeout = 30_000;
const forgeries = [
  ["nothing", -1, 0n],
  ["process 1", 0, 1n],
  ["offset 32 MiB", 3, 2n ** 25n],
  ["offset 1 TiB", 3, 2n ** 40n],
  ["offset 16 TiB", 3, 2n ** 44n],
  ["offset -1", 3, 2n ** 64n - 1n],
  ["size 0", 4, 0n],
  ["size 1", 4, 1n],
  ["size + 1", 4, BigInt(byteLength) + 1n],
  ["size 5,376 MiB", 4, 5376n * 2n ** 20n],
  ["size 8 GiB", 4, 2n ** 33n],
  ["size 2^56 + 64 MiB", 4, 2n ** 56n + BigInt(byteLength)],
] as const;

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const folder = mkdtempSync("/tmp/poolpass-forged-");
try {
  const program = `${folder}/forging_exporter`;
  const built = new Deno.Command("nvcc", { args: ["-o", program, path("forging_exporter.cu")], stderr: "inherit" });
  if (!built.outputSync().success) throw new Error("nvcc failed");
  const table = [["changed", "the importer"]];
  for (const [name, field, value] of forgeries) table.push([name, await outcomeOf(program, field, value)]);
  console.log(formatTable(table));
  if (table.flat().some((cell) => cell.startsWith("DIED"))) Deno.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true });
}

async function outcomeOf(program: string, field: number, value: bigint): Promise<string> {
  const socket = `${folder}/socket${field}-${value}`;
  const exporter = new Deno.Command(program, {
    args: [socket, String(byteLength), String(field), String(value)],
    stdout: "piped",
  }).spawn();
  const lines = exporter.stdout.pipeThrough(new TextDecoderStream()).getReader();
  await lines.read();
  const importer = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", path("../../examples/pool_importer.ts"), "0", "0", socket],
    stderr: "piped",
  }).spawn();
  const timer = setTimeout(() => importer.kill("SIGKILL"), importerTimeout);
  const { code, signal, stderr } = await importer.output();
  clearTimeout(timer);
  try {
    exporter.kill("SIGKILL");
  } catch {
    // It has ended.
  }
  await exporter.status;
  await lines.cancel();
  if (signal !== null) return `DIED of ${signal}`;
  const last = new TextDecoder().decode(stderr).trimEnd().split("\n").at(-1)!;
  return code === 0 ? "has used the memory" : `refused: ${last.slice(0, 120)}`;
}
