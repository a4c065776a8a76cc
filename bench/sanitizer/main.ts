/**
 * Measures what the sanitizer costs: a call's time on the host with and without it, and a kernel's on the software
 * device.
 *
 *     deno task bench sanitizer [--rounds 100]
 *
 * Calls are measured on a GPU if there is one. Two processes, with and without the sanitizer, take turns in each round,
 * and so does all that is measured: a shared processor may be twice as fast for a second as in the next one. The medians
 * of the rounds and the fastest ones are printed. The time of a call stack alone, at the same depth as that of a fill, is
 * printed, too: each call that accesses memory notes one.
 *
 * @module
 */
import { formatTable } from "../../examples/table.ts";
import { Contender, scriptProgram } from "../harness/contender.ts";
import { median } from "../harness/measurement.ts";
import { readOptions } from "../harness/options.ts";
import { asking } from "../harness/rows.ts";
import type { Greeting } from "../sharing/contract.ts";

const { rounds } = readOptions(import.meta.url, { rounds: 100 });

/** Samples that are not counted: engines go on to compile a method until it was called some ten thousand times. */
const warmUps = { calls: 150, kernels: 2 } as const;
const stack = "call stack";

function start(what: keyof typeof warmUps, kind: "plain" | "sanitized"): Contender {
  return new Contender(scriptProgram(kind, new URL("./program.ts", import.meta.url), [what, kind]));
}

/** The microseconds of one sample. */
async function sample(contender: Contender, work: string, warmUp = 0): Promise<number> {
  return await asking(contender, { work, warmUp })() / 1000;
}

async function measure(what: keyof typeof warmUps): Promise<void> {
  const contenders = [start(what, "plain"), start(what, "sanitized")];
  try {
    const [{ device, works }] = await Promise.all(contenders.map((contender) => contender.greeting<Greeting>())) as [
      Greeting,
      Greeting,
    ];
    const times = works.map(() => [[], []] as [plain: number[], sanitized: number[]]);
    for (const work of works) for (const contender of contenders) await sample(contender, work, warmUps[what]);
    for (let round = 0; round < rounds; round++) {
      for (const [row, work] of works.entries()) {
        for (const [index, contender] of contenders.entries()) times[row]![index]!.push(await sample(contender, work));
      }
    }
    const head = [device, "plain, us", "sanitized, us", "more, us", "ratio"];
    for (const [name, of] of [["Medians", median], ["Fastest", (values: number[]) => Math.min(...values)]] as const) {
      const rows = works.map((work, row) => {
        const [a, b] = times[row]!.map(of) as [number, number];
        return [work, a.toFixed(2), ...work === stack ? [] : [b.toFixed(2), (b - a).toFixed(2), (b / a).toFixed(2)]];
      });
      console.log(`\n${name}\n${formatTable([head, ...rows])}`);
    }
  } finally {
    await Promise.all(contenders.map((contender) => contender.end()));
  }
}

await measure("calls");
await measure("kernels");
