import { assert, assertEquals } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { startScript } from "../support/child_process.ts";
import { driversUnderTest, type DriverUnderTest } from "../support/drivers.ts";
import { test } from "../support/test.ts";

type Outcomes = Readonly<Record<string, string>>;

interface Failure {
  readonly failure: string;
  readonly waits: Outcomes;
  readonly isPrompt: boolean;
  /** Of the Worker that waited, of an idle one, and of the one whose kernel failed. */
  readonly next: readonly [Outcomes, Outcomes, Outcomes];
  /** Of a Cuda object that is opened afterwards. */
  readonly another: string;
}

const trap = "CudaError cudaErrorLaunchFailure";

/** Runs a scenario of `children/workers/process.ts`, and returns what it prints. */
async function run(driver: DriverUnderTest, scenario: string): Promise<unknown> {
  const folder = mkdtempSync("/tmp/poolpass-workers-");
  try {
    await using child = startScript("children/workers/process.ts", [driver.name, scenario, folder], {
      permissions: ["--allow-all"],
    });
    const line = await child.nextLine();
    assertEquals([await child.ended, await child.errors()], [0, ""]);
    return JSON.parse(line!);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

for (const driver of driversUnderTest) {
  const { name, skip } = driver;

  test(`Workers that open, compute and dispose at the same time do so independently [${name}]`, {
    skip,
    long: name === "software",
  }, async () => {
    assertEquals(await run(driver, "compute"), "right");
  });

  test(
    `a Worker disposes its Cuda object, and others go on [${name}]`,
    { skip, long: name === "software" },
    async () => {
      assertEquals(await run(driver, "dispose"), { memory: "ok" });
    },
  );

  test(
    `a Worker is terminated while it waits, and others go on [${name}]`,
    { skip, long: name === "software" },
    async () => {
      assertEquals(await run(driver, "terminate"), "right");
    },
  );

  const what = name === "software" ? "only that Worker loses its device" : "every Worker loses the context, at once";
  test(`a kernel of a Worker traps, and ${what} [${name}]`, { skip }, async () => {
    const { failure, waits, isPrompt, next, another } = await run(driver, "fail") as Failure;
    const isShared = name !== "software";
    const ofOthers = isShared ? trap : "ok";
    assertEquals(failure, trap);
    assertEquals(new Set(Object.values(waits)), new Set([ofOthers]));
    assert(isPrompt || !isShared);
    const ofNext = next.map((outcomes) => [...new Set(Object.values(outcomes))]);
    assertEquals(ofNext, [[ofOthers], [ofOthers], [trap]]);
    assertEquals(another, ofOthers);
  });
}
