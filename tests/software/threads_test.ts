/** How many threads the software device uses. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { open } from "../../mod.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import type { SoftwareDriverOptions } from "../../src/software/visible_devices.ts";
import { startScript } from "../support/child_process.ts";
import { test } from "../support/test.ts";

const skipPinned = shimRefusal() ??
  (spawnSync("taskset", ["--version"]).status !== 0 && "there is no taskset");

/** Undoes in a child what the environment of the tests may set. */
const unset = { POOLPASS_SOFTWARE_THREADS: "", POOLPASS_SOFTWARE_SCHEDULE: "", POOLPASS_SANITIZE: "" };

/** The number of threads of a driver with these options. */
function threads(options: Partial<SoftwareDriverOptions>): number {
  const driver = new SoftwareDriver({ devices: 1, peers: true, ...options });
  try {
    return driver.threads;
  } finally {
    driver.close();
  }
}

test("one thread is used with a schedule or a check of kernels", () => {
  assertEquals(threads({ threads: 4 }), 4);
  assertEquals(threads({ threads: 4, schedule: "oldest" }), 1);
  assertEquals(threads({ threads: 4, schedule: "random:1" }), 1);
  assertEquals(threads({ threads: 4, observesAccesses: true }), 1);
  assertEquals(threads({ threads: 4, kernelChecks: new Set(["memory"] as const) }), 1);
});

test("a number of threads that is not possible is refused", () => {
  for (const softwareThreads of [0, -1, 257, 1.5, NaN, Infinity]) {
    const message =
      `Cannot run kernels on ${softwareThreads} threads: softwareThreads must be a whole number from 1 to 256`;
    assertThrows(() => open({ driver: "software", softwareThreads }), RangeError, message);
  }
});

test(
  "the option, or else the variable, or else the affinity sets the number of threads",
  { skip: skipPinned },
  async () => {
    const [, cpu] = /^Cpus_allowed_list:\s*(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))!;
    const through = ["taskset", "-c", cpu!];
    await using child = startScript("children/software/count_threads.ts", [], { through, env: unset });
    assertEquals(await child.nextLine(), "1,5,3", await child.errors());
  },
);

for (const [descriptorLimit, least, most] of [[64, 0, 2], [256, 2, 15]] as const) {
  test(
    `of ${descriptorLimit} descriptors, worker threads leave half to the program`,
    { skip: shimRefusal() ?? false },
    async () => {
      const options = { descriptorLimit, env: unset, permissions: ["--allow-ffi"] };
      await using child = startScript("children/software/count_workers.ts", [], options);
      const line = await child.nextLine();
      assertEquals([await child.errors(), await child.ended], ["", 0]);
      assert(Number(line) >= least && Number(line) <= most, line);
    },
  );
}
