import { assert, assertEquals, assertMatch } from "@std/assert";
import process from "node:process";
import type { Cuda } from "../../../src/objects/cuda.ts";
import { open } from "../../../src/open.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import { Operator } from "../../../src/sharing/operator/operator.ts";
import type { ChildProcess } from "../../support/child_process.ts";
import { inFolder } from "../../support/folders.ts";
import { leakTest } from "../../support/resources.ts";
import { noPython, startHostile } from "./hostile_peers.ts";

/** Milliseconds in which honest peers are served. */
const promptly = 2000;
/** Milliseconds in which a message must be complete, and an answer read. */
const messageTimeout = 300;

interface Fixture {
  readonly cuda: Cuda;
  readonly exporter: Exporter;
  /** Connects an honest importer and asks for the status, within two seconds. */
  serveHonest(): Promise<void>;
}

/** @param offers their number: a status of 3,000 offers is longer than what a socket buffers */
function fixtureTest(
  name: string,
  body: (fixture: Fixture) => Promise<void>,
  { offers = 1, long }: { offers?: number; long?: boolean } = {},
): void {
  const withFixture = () =>
    inFolder(async (folder) => {
      using cuda = open({ driver: "software" });
      using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
      await using exporter = Exporter.listen(`${folder}/exporter`, { closeTimeout: 0, messageTimeout });
      using buffer = pool.allocateArray(Uint32Array, 4);
      buffer.copyFrom(Uint32Array.of(1, 2, 3, 4));
      for (let index = 0; index < offers; index++) exporter.offer(`weights ${index}`, buffer);
      const serveHonest = async () => {
        const since = performance.now();
        await using importer = await Importer.connect(cuda, exporter.path);
        using weights = await (await importer.offer("weights 0")).map();
        assertEquals(await weights.read(Uint32Array), Uint32Array.of(1, 2, 3, 4));
        await using operator = await Operator.connect(exporter.path);
        const status = await operator.status();
        assert(status.kind === "exporter" && status.offers.length === offers);
        const duration = performance.now() - since;
        assert(duration < promptly, `Honest peers were served after ${duration} ms`);
      };
      await body({ cuda, exporter, serveHonest });
    });
  leakTest(name, withFixture, { skip: noPython, long, warmUp });
}

/** Creates what a first connection creates once and keeps. */
function warmUp(): Promise<void> {
  return inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
    await using exporter = Exporter.listen(`${folder}/exporter`);
    using buffer = pool.allocateArray(Uint32Array, 4);
    exporter.offer("weights", buffer);
    await using importer = await Importer.connect(cuda, exporter.path);
    using weights = await (await importer.offer("weights")).map();
    await weights.read(Uint32Array);
  });
}

/** What each operator does that breaks a rule, and the reason and text that it is sent. */
const offenders: readonly (readonly [mode: string, goodbye: RegExp])[] = [
  ["long", /^6 .*limit is 4096 bytes of documents at a time/],
  ["many halves", /^6 .*limit is 4096 bytes of documents at a time/],
  ["no JSON", /^3 .*document 1 of ASK is not JSON/],
  ["no object", /^3 .*document 1 of ASK is not a JSON object/],
  ["something else", /^3 .*an operator asks for "\\u001b\[2Jstop", and can ask for "status"/],
  ["the same number", /^3 .*request 1 is used again before its answer/],
  ["an importer's message", /^3 .*a message "held" comes from an operator/],
  ["an answer", /^3 .*a message "answer" comes from an operator/],
  ["half a message", /^4 .*not complete within 300 ms/],
];

fixtureTest("an operator that breaks a rule is disconnected, and nobody else", async ({ exporter, serveHonest }) => {
  await using operator = await Operator.connect(exporter.path);
  for (const [mode, goodbye] of offenders) {
    await using hostile = startHostile("hostile_operators.py", [exporter.path, mode]);
    assertEquals(await hostile.nextLine() ?? await hostile.errors(), "ready", mode);
    assertMatch(await hostile.nextLine() ?? await hostile.errors(), goodbye, mode);
    await hostile.ended;
    assertEquals((await operator.status()).kind, "exporter");
  }
  await serveHonest();
  assertEquals(exporter.statistics().importers.refused, {});
});

fixtureTest("half a document costs nothing and holds up nobody", async ({ exporter, serveHonest }) => {
  await using hostile = startHostile("hostile_operators.py", [exporter.path, "half a document"]);
  assertEquals(await hostile.nextLine(), "ready");
  await serveHonest();
  hostile.kill("SIGKILL");
});

for (const mode of ["flood", "again and again"]) {
  fixtureTest(`a flood of asks holds up nobody: ${mode}`, async ({ exporter, serveHonest }) => {
    await using hostile = startHostile("hostile_operators.py", [exporter.path, mode]);
    assertEquals(await hostile.nextLine() ?? await hostile.errors(), "ready");
    for (let index = 0; index < 3; index++) await serveHonest();
    if (mode === "flood") {
      assertMatch(
        (await hostile.nextLine())!,
        /^(closed$|6 .*the limit is 16 asks of an operator that are not answered)/,
      );
    }
    hostile.kill("SIGKILL");
  }, { offers: 3000 });
}

fixtureTest("an answer that nobody reads is kept once, and for as long as a message may take", async (fixture) => {
  const { exporter, serveHonest } = fixture;
  const count = 20;
  await using hostile = new AsyncDisposableStack();
  const children: ChildProcess[] = [];
  const before = process.memoryUsage();
  for (let index = 0; index < count; index++) {
    const each = hostile.use(startHostile("hostile_operators.py", [exporter.path, "never reads"]));
    assertEquals(await each.nextLine() ?? await each.errors(), "ready");
    children.push(each);
  }
  await serveHonest();
  const { rss } = process.memoryUsage();
  assert(rss - before.rss < 200 * 2 ** 20, `${(rss - before.rss) / 2 ** 20} MiB more`);
  const since = performance.now();
  while (exporter.statistics().operators > 0) {
    assert(performance.now() - since < 10 * messageTimeout, "Operators that read nothing are connected");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await serveHonest();
  for (const each of children) each.kill("SIGKILL");
}, { offers: 3000, long: true });
