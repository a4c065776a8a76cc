/**
 * `poolpass doctor`: describes the CUDA installation of this machine, and finds problems that prevent the use of its
 * GPUs.
 *
 * @module
 */
import process from "node:process";
import { countOf } from "../src/support/printing.ts";
import { version } from "../src/support/version.ts";
import { type Command, readOptions, type Terminal, UsageError } from "./command_line.ts";
import { checkCompilers, checkDevices, checkGpuFiles } from "./doctor/check_cuda.ts";
import { checkImports, checkLayouts } from "./doctor/check_imports.ts";
import { checkSocket } from "./doctor/check_socket.ts";
import { checkKernel, checkLimits, checkNamespaces, checkVariables } from "./doctor/check_system.ts";
import { type DoctorFinding, finding } from "./doctor/finding.ts";
import { thisMachine } from "./doctor/machine.ts";
import { tryImportHere, tryImportOption } from "./doctor/try_import.ts";
import { connectionHelp, connectionOptions, readConnectionOptions } from "./status/connection.ts";
import { formatJson } from "./status/json.ts";
import { printable } from "./status/table.ts";

const help = `Usage: poolpass doctor [SOCKET] [options]

Checks what programs find on this machine: the driver and its libraries, device files, what the kernel and its
namespaces allow, limits and the environment. Given a socket, it also checks who listens there, and whether this user can
connect.

With --try-imports, it also tests whether the driver imports allocations of 4 GiB and more. NVIDIA's driver may end a
process that imports one, so each is imported in a process of its own, on the first device. An import takes seconds, and
as much of the device's memory.

Each line begins with ok, note or problem. Below a note or a problem is what to do. If there is a problem, the exit code
is 1.

Options:
${connectionHelp}
  --try-imports   try imports of 4 GiB and more
  --json          print a JSON array of what was found

Examples:
  poolpass doctor
  poolpass doctor --try-imports
  poolpass doctor /run/user/1000/frames.sock`;

const options = { ...connectionOptions, "try-imports": { type: "boolean" }, json: { type: "boolean" } } as const;

/** The command `poolpass doctor`. */
export const doctorCommand: Command = {
  name: "doctor",
  summary: "check the driver, its libraries and this system, and say what to change",
  help,
  run,
};

async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  if (args[0] === tryImportOption) {
    terminal.print(JSON.stringify(tryImportHere(Number(args[1]))));
    return 0;
  }
  const { files: [path, more], values } = readOptions(args, options);
  if (more !== undefined) throw new UsageError(`There is nothing to do with "${more}"`);
  const connection = readConnectionOptions(values);
  const machine = thisMachine;
  const findings = [
    finding("ok", "poolpass", `${version}, in ${runtime()}`),
    ...checkDevices(machine),
    ...checkLayouts(),
    ...values["try-imports"] ? await checkImports(terminal) : [],
    ...checkGpuFiles(machine),
    ...checkCompilers(machine),
    ...checkKernel(machine),
    ...checkNamespaces(machine),
    ...checkLimits(machine),
    ...checkVariables(machine, Object.keys(process.env)),
    ...path === undefined ? [] : await checkSocket(path, { machine, options: connection, signal: terminal.signal }),
  ];
  terminal.print(values.json ? formatJson(findings, 2) : formatFindings(findings));
  return findings.some(({ level }) => level === "problem") ? 1 : 0;
}

/** Formats findings as text. */
export function formatFindings(findings: readonly DoctorFinding[]): string {
  const width = Math.max(...findings.map(({ topic }) => topic.length));
  const lines = findings.flatMap(({ level, topic, found, advice }) => [
    `${level.padEnd(7)}  ${topic.padEnd(width)}  ${printable(found)}`,
    ...advice === undefined ? [] : [`${" ".repeat(7 + 2 + width)}  -> ${printable(advice)}`],
  ]);
  const count = (level: string): number => findings.filter((each) => each.level === level).length;
  return [...lines, "", `${countOf(count("problem"), "problem")}, ${countOf(count("note"), "note")}`].join("\n");
}

function runtime(): string {
  const { deno, bun, node } = process.versions as { deno?: string; bun?: string; node?: string };
  return deno !== undefined ? `Deno ${deno}` : bun !== undefined ? `Bun ${bun}` : `Node ${node}`;
}
