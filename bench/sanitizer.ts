/**
 * Measures what the sanitizer costs: a call's time on the host with and without it, and a kernel's on the software
 * device.
 *
 *     deno task bench:sanitizer [--rounds 10]
 *
 * Calls are measured on a GPU if there is one. Two processes, with and without the sanitizer, take turns in each round.
 * The time of a call stack alone, at the same depth as that of a fill, is printed, too: each call that accesses memory
 * notes one.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { formatTable } from "../examples/table.ts";
import { answerHelp } from "../tests/support/program_help.ts";
import { Contender, scriptProgram } from "./contender.ts";
import { median } from "./measurement.ts";
import type { Answer, Greeting } from "./sharing/contract.ts";

answerHelp(import.meta.url, ["rounds"]);

const { rounds } = parseArgs(Deno.args, { string: ["rounds"], default: { rounds: "10" } });

/** Samples that are not counted: engines go on to compile a method until it was called some ten thousand times. */
const warmUps = { calls: 150, kernels: 2 } as const;
const stack = "call stack";

function start(what: keyof typeof warmUps, kind: "plain" | "sanitized"): Contender {
  return new Contender(scriptProgram(kind, new URL("./sanitizer/program.ts", import.meta.url), [what, kind]));
}

/** The microseconds of one sample. */
async function sample(contender: Contender, work: string, warmUp = 0): Promise<number> {
  const answer = await contender.ask<Answer>(JSON.stringify({ work, repetitions: 1, warmUp }));
  if ("error" in answer) throw new Error(`Cannot measure ${work}: ${answer.error}`);
  return answer.nanoseconds[0]! / 1000;
}

async function measure(what: keyof typeof warmUps): Promise<void> {
  const contenders = [start(what, "plain"), start(what, "sanitized")];
  try {
    const [{ device, works }] = await Promise.all(contenders.map((contender) => contender.greeting<Greeting>())) as [
      Greeting,
      Greeting,
    ];
    const rows: string[][] = [];
    for (const work of works) {
      for (const contender of contenders) await sample(contender, work, warmUps[what]);
      const times: number[][] = [[], []];
      for (let round = 0; round < Number(rounds); round++) {
        for (const [index, contender] of contenders.entries()) times[index]!.push(await sample(contender, work));
      }
      const [a, b] = times.map(median) as [number, number];
      if (work === stack) console.log(`A call stack alone: ${a.toFixed(2)} us`);
      else rows.push([work, a.toFixed(2), b.toFixed(2), (b - a).toFixed(2), (b / a).toFixed(2)]);
    }
    console.log(formatTable([[device, "plain, us", "sanitized, us", "more, us", "ratio"], ...rows]));
  } finally {
    await Promise.all(contenders.map((contender) => contender.end()));
  }
}

await measure("calls");
await measure("kernels");
