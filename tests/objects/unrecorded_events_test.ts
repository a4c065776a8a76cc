/** Tests of the warnings about waits for events that were never recorded. */
import { assertEquals, assertMatch } from "@std/assert";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaEvent } from "../../src/objects/streams/cuda_event.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import { Session } from "../../src/session.ts";
import { startScript } from "../support/child_process.ts";
import { driversUnderTest, testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";

const warning =
  /^poolpass: .* an event of device 0 that was never recorded, which does not wait for anything\nwaited for\n/;

/** What waits for an event, and how the warning begins. */
const waits: Readonly<Record<string, (event: CudaEvent, stream: CudaStream) => unknown>> = {
  "a stream waits for": (event, stream) => stream.wait(event),
  "the host waits for": (event) => event.finished(),
  "the host waits for an event": (event) => event.synchronize(),
  "the host queries": (event) => event.query(),
};

/** Returns the warnings of a function. */
async function warningsOf(run: () => unknown): Promise<string[]> {
  const warnings: string[] = [];
  const { warn } = console;
  console.warn = (message: string) => void warnings.push(message);
  try {
    await run();
  } finally {
    console.warn = warn;
  }
  return warnings;
}

for (const [beginning, wait] of Object.entries(waits)) {
  const name = `in debug mode, "${beginning}" is said once of an event that was never recorded`;
  testOnEachDriver(name, async (_, { open }) => {
    using cuda = new Cuda(new Session(open(), { debug: true }));
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using event = gpu.createEvent();
    const warnings = await warningsOf(async () => {
      for (let time = 0; time < 2; time++) await wait(event, stream);
    });
    assertEquals(warnings.length, 1);
    assertMatch(warnings[0]!, warning);
    assertEquals(warnings[0]!.startsWith(`poolpass: ${beginning}`), true);
    const [before, after] = warnings[0]!.split("event created");
    for (const stack of [before!, after!]) assertMatch(stack, /unrecorded_events_test\.ts/);
  });
}

testOnEachDriver("no wait is warned of that may have a record", async (cuda, { open }) => {
  using debugging = new Cuda(new Session(open(), { debug: true }));
  const warnings = await warningsOf(async () => {
    for (const wait of Object.values(waits)) {
      for (const gpu of [cuda.device(0), debugging.device(0)]) {
        using stream = gpu.createStream();
        using event = gpu.createEvent();
        // Another library may record it.
        if (gpu !== cuda.device(0)) void event.unsafeHandle;
        await wait(event, stream);
        using recorded = gpu.createEvent();
        stream.record(recorded);
        await wait(recorded, stream);
      }
    }
    using exported = debugging.device(0).createEvent({ interprocess: true });
    exported.exportHandle();
    exported.synchronize();
  });
  assertEquals(warnings, []);
}, { makesMistakes: true });

for (const { name, skip } of driversUnderTest.filter(({ name }) => name === "software" || name === "cuda")) {
  for (const debug of ["0", "1"]) {
    const what = debug === "1" ? "warns once" : "does not warn";
    test(
      `a process with POOLPASS_DEBUG=${debug} ${what} of an event that was never recorded [${name}]`,
      { skip },
      async () => {
        const env = { POOLPASS_DEBUG: debug, POOLPASS_DRIVER: name, POOLPASS_SANITIZE: "0" };
        await using child = startScript("children/wait_unrecorded.ts", [], { env });
        const errors = await child.errors();
        assertEquals(await child.ended, 0, errors);
        assertEquals(errors.match(/^poolpass: /gm)?.length ?? 0, Number(debug), errors);
        if (debug === "1") assertMatch(errors, /a stream waits for an event .*[^]*wait_unrecorded\.ts/);
      },
    );
  }
}
