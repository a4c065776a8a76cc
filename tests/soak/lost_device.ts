/**
 * Runs five programs at once, round after round: an exporter with a channel and four importers, of which one or all lose
 * their device while the channel is open. Counts how they end, and prints the backtrace of every crash.
 *
 *     deno run --allow-all --import-map import_map.json tests/soak/lost_device.ts [--rounds 40] [--seconds 420]
 *
 * Needs gcc, or nvcc with a host compiler, for backtraces; without them crashes are only counted. Exits with status 1 if
 * a program was killed by a signal, did not end, or threw another error than those that the library documents.
 *
 * @module
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "@std/cli/parse-args";
import { buildLibrary } from "./c_library.ts";
import { type ChildProcess, remainingLines, startScript } from "../support/child_process.ts";
import { answerHelp } from "../support/program_help.ts";

answerHelp(import.meta.url, ["rounds", "seconds"]);

const importers = 4;
/** Who loses the device, by what, and how it ends then. */
const victims = ["exporter", "importer", "all importers", "all"] as const;
const endings = ["dispose", "exit", "throw"] as const;
const faults = ["address", "trap"] as const;
/** Milliseconds for a program to end, and for those to be told of that are missing. */
const timeout = 90_000;

const args = parseArgs(Deno.args, { string: ["rounds", "seconds"], default: { rounds: "40", seconds: "420" } });
const folder = mkdtempSync(join(tmpdir(), "poolpass-lost-"));
using cleanup = new DisposableStack();
cleanup.defer(() => rmSync(folder, { recursive: true }));
const library = buildLibrary("crash_backtrace", folder);
const report = join(folder, "crashes");
const outcomes = new Map<string, number>();
const remarkable: string[] = [];
const begin = performance.now();
let round = 0;
for (; round < Number(args.rounds); round++) {
  if (performance.now() - begin > Number(args.seconds) * 1000) break;
  await runRound(victims[Math.floor(round / faults.length) % victims.length]!, endings[round % endings.length]!);
}
const seconds = ((performance.now() - begin) / 1000).toFixed(0);
console.log(`${round} rounds of ${importers + 1} programs in ${seconds} s; backtraces: ${library ?? "no compiler"}`);
for (const [outcome, count] of [...outcomes].sort(([, a], [, b]) => b - a)) {
  console.log(`${count}`.padStart(5), outcome);
}
for (const each of remarkable) console.log(each);
const crashes = existsSync(report) ? readFileSync(report, "utf8") : "";
console.log(`${crashes.split("CRASH").length - 1} crashes\n${crashes.slice(0, 20_000)}`);
Deno.exit(remarkable.length === 0 && crashes === "" ? 0 : 1);

async function runRound(victim: (typeof victims)[number], ending: (typeof endings)[number]): Promise<void> {
  const path = join(folder, `exporter${round}`);
  const fault = faults[round % faults.length]!;
  const start = (role: string, isVictim: boolean): ChildProcess =>
    startScript("soak/lost_device_program.ts", [role, path, isVictim ? fault : "none", ending, `${importers}`], {
      permissions: ["--allow-all"],
      env: library === undefined ? {} : { LD_PRELOAD: library, CRASH_REPORT: report },
    });
  const programs: (readonly [role: string, isVictim: boolean])[] = [
    ["exporter", victim === "exporter" || victim === "all"],
  ];
  for (let i = 0; i < importers; i++) {
    programs.push(["importer", i === 0 && victim === "importer" || victim.startsWith("all")]);
  }
  await using stack = new AsyncDisposableStack();
  const children = programs.map((each) => [...each, stack.use(start(...each))] as const);
  await Promise.all(children.map(async ([role, isVictim, child]) => {
    const end = await Promise.race([child.ended, late()]);
    if (end === "late") child.kill("SIGKILL");
    const errors = (await child.errors()).trim();
    const lines = await remainingLines(child);
    const what = lines.findLast((line) => line !== "ready") ?? /\b(CudaError|SharingError)\b/.exec(errors)?.[0] ?? "";
    const who = `${role}${isVictim ? `, its device lost, ${ending}` : `, ${victim} lost the device`}`;
    const outcome = `${who}: ${end} ${what}`;
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    const isExpected = end === 0 || end === 1 && isVictim && ending === "throw" && what !== "";
    if (!isExpected) remarkable.push(`round ${round}: ${outcome}\n${errors.slice(-1500)}`);
  }));
}

async function late(): Promise<"late"> {
  await new Promise((resolve) => {
    // An unreferenced timer would let the process end while programs run; this one is over with the round.
    setTimeout(resolve, timeout);
  });
  return "late";
}
