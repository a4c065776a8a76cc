/**
 * Which instructions ptxas assembles.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Combination, moduleOf } from "./combinations.ts";

/** Why ptxas cannot be asked. */
export const withoutPtxas: string | false = /release 13\.0/.test(
    spawnSync("ptxas", ["--version"], { encoding: "utf8" }).stdout ?? "",
  )
  ? false
  : "ptxas 13.0 is not on the PATH";

/** The instructions of one module. ptxas 13.0 crashes on some that are larger. */
const batch = 400;

/** What ptxas says of each instruction that it does not take, by its text. */
export function refusedByPtxas(combinations: readonly Combination[], target = "sm_90a"): Map<string, string> {
  const folder = mkdtempSync(join(tmpdir(), "poolpass_ptxas_"));
  try {
    return refusedOf(combinations, { folder, target });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Where modules are assembled, and for what. */
interface Assembly {
  readonly folder: string;
  readonly target: string;
}

function refusedOf(combinations: readonly Combination[], assembly: Assembly): Map<string, string> {
  if (combinations.length > batch) return halves(combinations, assembly);
  const refused = new Map<string, string>();
  // ptxas stops at the first line that it cannot parse, and lists all others that are wrong.
  for (let rest = combinations; rest.length > 0;) {
    const wrong = assemble(rest, assembly);
    if (wrong === "crash" && rest.length === 1) return refused.set(rest[0]!.text, "ptxas crashes");
    if (wrong === "crash") return new Map([...refused, ...halves(rest, assembly)]);
    for (const [text, what] of wrong) refused.set(text, what);
    if (wrong.size === 0) break;
    rest = rest.filter(({ text }) => !wrong.has(text));
  }
  return refused;
}

function halves(combinations: readonly Combination[], assembly: Assembly): Map<string, string> {
  const middle = combinations.length >> 1;
  return new Map(
    [combinations.slice(0, middle), combinations.slice(middle)].flatMap((half) => [...refusedOf(half, assembly)]),
  );
}

function assemble(
  combinations: readonly Combination[],
  { folder, target }: Assembly,
): Map<string, string> | "crash" {
  const { ptx, firstLine } = moduleOf(combinations);
  const path = join(folder, "module.ptx");
  writeFileSync(path, ptx.replace("sm_90a", target));
  const result = spawnSync("ptxas", [`-arch=${target}`, "-O0", "-o", join(folder, "out"), path], { encoding: "utf8" });
  const wrong = new Map<string, string>();
  if (result.status === 0) return wrong;
  if (result.signal !== null) return "crash";
  const log = `${result.stderr}${result.stdout}`;
  for (const [, line, what] of log.matchAll(/, line (\d+); (?:error|fatal)\s*: (.*)/g)) {
    const combination = combinations[Number(line) - firstLine];
    if (combination !== undefined && !wrong.has(combination.text)) wrong.set(combination.text, what!);
  }
  if (wrong.size === 0) throw new Error(`ptxas failed with ${result.status ?? result.signal}: ${log.slice(0, 2000)}`);
  return wrong;
}
