/** No call blocks forever behind a collective that cannot complete, whatever CUDA would wait for. */
import { assertEquals } from "@std/assert";
import { startScript } from "../support/child_process.ts";
import { isLong, someOf, test } from "../support/test.ts";
import { reasonWithoutTwo } from "./idle_ranks.ts";

/** The timeout of collectives, in milliseconds. GPUs take nearly as long to create a communicator. */
const timeouts = { software: 400, cuda: 1500 } as const;
/** Milliseconds after which a call counts as hanging. */
const patience = 10_000;
/** The calls that throw the error of the collective. */
const throwing = /^many collectives$/;
/** The calls that wait because they would fill the launch queue of the collective's stream, and those that need not. */
const waiting = /^many (launches(?! on another)|fills|copies)/;
const free = /^(a few launches|many launches on another|many (records|waits|allocations))/;

/** Makes calls in a child process. Returns the outcome of each; that of the last one is "hangs" if it did not return. */
async function outcomesOf(driver: "software" | "cuda", names: readonly string[]): Promise<[name: string, string][]> {
  const outcomes: [string, string][] = [];
  await using child = startScript("children/collectives/call_behind.ts", [driver, `${timeouts[driver]}`, ...names], {
    permissions: ["--allow-ffi", "--allow-env"],
  });
  for (let name = await child.nextLine(); name !== undefined; name = await child.nextLine()) {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const hangs = new Promise<"hangs">((resolve) => timer = setTimeout(resolve, patience, "hangs"));
    const outcome = await Promise.race([child.nextLine(), hangs]);
    clearTimeout(timer);
    outcomes.push([name, outcome ?? `the process has ended: ${await child.errors()}`]);
    if (outcome === "hangs") {
      child.kill("SIGKILL");
      break;
    }
  }
  await child.ended;
  return outcomes;
}

function isRight(name: string, outcome: string): boolean {
  if (throwing.test(name)) return outcome === "timed-out late";
  if (waiting.test(name)) return outcome === "done late";
  return outcome === "done" || !free.test(name) && outcome === "done late";
}

for (const driver of ["software", "cuda"] as const) {
  test(
    `no call hangs behind a collective that cannot end [${driver}]`,
    { skip: reasonWithoutTwo(driver) },
    async () => {
      await using lister = startScript("children/collectives/call_behind.ts", [driver, "0"]);
      const names: string[] = [];
      for (let name = await lister.nextLine(); name !== undefined; name = await lister.nextLine()) names.push(name);
      const wrong: string[] = [];
      let left = someOf(names, 6);
      while (left.length > 0) {
        const outcomes = await outcomesOf(driver, left);
        for (const [name, outcome] of outcomes) {
          if (isLong) console.log(`${driver}: ${name}: ${outcome}`);
          if (!isRight(name, outcome)) wrong.push(`${name}: ${outcome}`);
        }
        if (outcomes.length === 0) throw new Error("The child has made no call");
        left = left.slice(outcomes.length);
      }
      assertEquals(wrong, []);
    },
  );
}
