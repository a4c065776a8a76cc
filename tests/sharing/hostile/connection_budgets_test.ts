import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { chmodSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import process from "node:process";
import type { Cuda } from "../../../src/objects/cuda.ts";
import { open } from "../../../src/open.ts";
import { Exporter, type ExporterOptions } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import { SharingError } from "../../../src/support/errors.ts";
import { waitUntil } from "../../../src/support/waiting/waiting.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { type ChildProcess, startScript } from "../../support/child_process.ts";
import { leakTest } from "../../support/resources.ts";
import { inFolder } from "../../support/folders.ts";
import { test, type TestOptions } from "../../support/test.ts";
import { noPython, startHostile } from "./hostile_peers.ts";

/** Milliseconds in which an honest importer is served, on a machine that is busy with other tests. */
const promptly = 5000;
/** Milliseconds in which a process that has much to do notices that others have ended. */
const eventually = 30_000;

interface Fixture {
  readonly cuda: Cuda;
  readonly exporter: Exporter;
  readonly folder: string;
  /** The errors of the connections that have ended. */
  readonly ends: (SharingError | undefined)[];
  /** Connects an honest importer, which maps and reads a buffer, within five seconds. */
  serveHonest(): Promise<void>;
}

async function withFixture(
  options: ExporterOptions,
  body: (fixture: Fixture) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  chmodSync(folder, 0o755);
  try {
    using cuda = open({ driver: "software" });
    using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
    const ends: (SharingError | undefined)[] = [];
    await using exporter = Exporter.listen(`${folder}/exporter`, {
      closeTimeout: 0,
      onDisconnect: (_peer, error) => void ends.push(error),
      ...options,
    });
    using buffer = pool.allocateArray(Uint32Array, 4);
    buffer.copyFrom(Uint32Array.of(1, 2, 3, 4));
    exporter.offer("weights", buffer);
    await body({
      cuda,
      exporter,
      folder,
      ends,
      async serveHonest() {
        const since = performance.now();
        {
          await using importer = await Importer.connect(cuda, exporter.path);
          using weights = await (await importer.offer("weights")).map();
          assertEquals(await weights.read(Uint32Array), Uint32Array.of(1, 2, 3, 4));
        }
        const duration = performance.now() - since;
        assert(duration < promptly, `An honest importer was served after ${duration} ms`);
      },
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function fixtureTest(
  name: string,
  body: (fixture: Fixture) => Promise<void>,
  { skip = noPython, long, ...options }: ExporterOptions & TestOptions & { skip?: string | undefined } = {},
): void {
  leakTest(name, () => withFixture(options, body), {
    skip,
    long,
    warmUp,
  });
}

function warmUp(): Promise<void> {
  return withFixture({}, ({ serveHonest }) => serveHonest());
}

async function firstLine(child: ChildProcess): Promise<string> {
  return await child.nextLine() ?? await child.errors();
}

for (const mode of ["once", "again and again"]) {
  fixtureTest(
    `silent connections, opened ${mode}, end each other, and honest importers are served`,
    async (fixture) => {
      const { exporter, ends } = fixture;
      const held = mode === "once" ? 64 : 900;
      await using silent = startHostile("silent_importers.py", [exporter.path, held, mode]);
      assertEquals(await firstLine(silent), "filled");
      for (let i = 0; i < 3; i++) await fixture.serveHonest();
      silent.kill("SIGSTOP");
      await fixture.serveHonest();
      const refused = ends.find((error) => error?.code === "limit-exceeded");
      const text =
        `Cannot keep the connection of process ${silent.pid}: the limit is 16 connections that have not sent`;
      assertStringIncludes(String(refused?.message), text);
      silent.kill("SIGKILL");
    },
    { maximumHandshakes: 16, long: mode !== "once" },
  );
}

fixtureTest("importers are limited in all, and the limit is named", async (fixture) => {
  const { cuda, exporter } = fixture;
  await using crowd = startHostile("crowding_importers.py", [exporter.path, 5]);
  assertEquals(await firstLine(crowd), "4");
  const text = `at ${exporter.path}: the limit is 4 importers (maximumImporters)`;
  assertEquals(await crowd.nextLine(), `6 Cannot serve process ${crowd.pid} ${text}`);
  const error = await assertRejects(() => Importer.connect(cuda, exporter.path), SharingError);
  assertEquals(error.code, "limit-exceeded");
  assertStringIncludes(error.message, text);
  crowd.kill("SIGKILL");
  await crowd.ended;
  while (exporter.importers.length > 0) await new Promise((resolve) => setTimeout(resolve, 1));
  await fixture.serveHonest();
}, { maximumImporters: 4 });

const user = 65_533;

fixtureTest("a user takes only a share of the importers", async (fixture) => {
  const { exporter } = fixture;
  await using crowd = startHostile("crowding_importers.py", [exporter.path, 5, user]);
  assertEquals(await firstLine(crowd), "4");
  assertStringIncludes((await crowd.nextLine())!, "the limit is 4 importers of one user (maximumImportersPerUser)");
  await fixture.serveHonest();
  crowd.kill("SIGKILL");
}, { maximumImporters: 8, users: [user], skip: noPython ?? noOtherUser(), long: true });

fixtureTest("silent connections of one user do not end those of another", async (fixture) => {
  const { exporter, ends } = fixture;
  await using silent = startHostile("silent_importers.py", [exporter.path, 64]);
  assertEquals(await firstLine(silent), "filled");
  await using other = startHostile("crowding_importers.py", [exporter.path, 2, user]);
  assertEquals(await firstLine(other), "2");
  await fixture.serveHonest();
  assert(ends.every((error) => error === undefined || error.message.includes(`process ${silent.pid}`)));
  silent.kill("SIGKILL");
  other.kill("SIGKILL");
}, { maximumHandshakes: 4, users: [user], skip: noPython ?? noOtherUser(), long: true });

fixtureTest("ended connections of a user's processes that hold memory are limited", async (fixture) => {
  const { cuda, exporter, ends } = fixture;
  await using lingering = startHostile("lingering_importers.py", [exporter.path, 2]);
  assertEquals(await firstLine(lingering), "closed");
  while (ends.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
  const error = await assertRejects(() => Importer.connect(cuda, exporter.path), SharingError);
  assertEquals(error.code, "limit-exceeded");
  assertStringIncludes(error.message, "the limit is 2 ended connections of one user whose processes hold memory");
  lingering.kill("SIGKILL");
  await lingering.ended;
  while (exporter.leases.length > 0) await new Promise((resolve) => setTimeout(resolve, 1));
  await fixture.serveHonest();
}, {
  // Of 1,024, each of 512 users has a share of two.
  users: Array.from({ length: 511 }, (_, index) => 100_000 + index),
  maximumImportersPerUser: 8,
});

leakTest("limits and callbacks are checked", () => {
  for (const name of ["maximumImporters", "maximumImportersPerUser", "maximumHandshakes", "maximumMetadata"]) {
    for (const value of [0, -1, NaN]) {
      const text = `Cannot use ${value} as ${name}: it must be 1 or more`;
      assertThrows(() => Exporter.listen("/nowhere/exporter", { [name]: value }), RangeError, text);
    }
    assertThrows(() => Exporter.listen("/nowhere/exporter", { [name]: "8" }), TypeError, `as ${name}`);
  }
  for (const name of ["onDisconnect", "onError"]) {
    const text = `as ${name}: it is not a function`;
    assertThrows(() => Exporter.listen("/nowhere/exporter", { [name]: 5 }), TypeError, text);
  }
});

leakTest("failing to accept is reported once, and retried", async () => {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    using cuda = open({ driver: "software" });
    await using child = startScript("children/sharing/failing_exporter.ts", [`${folder}/exporter`], {
      descriptorLimit: 100,
    });
    assertEquals(await child.nextLine(), "listening");
    await using _importer = await Importer.connect(cuda, `${folder}/exporter`);
    assertEquals(await child.nextLine(), "errors: out-of-descriptors");
  } finally {
    rmSync(folder, { recursive: true });
  }
}, { warmUp });

test("connections leave an exporter descriptors, and a process that has few connections is served", {
  skip: noPython ?? shimRefusal(),
}, () =>
  inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    const path = `${folder}/exporter`;
    await using child = startScript("children/sharing/crowded_exporter.ts", [path], { descriptorLimit: 256 });
    assertEquals(await child.nextLine(), "listening");
    const countDescriptors = () => readdirSync(`/proc/${child.pid}/fd`).length;
    const serveHonest = async () => {
      const since = performance.now();
      {
        await using importer = await Importer.connect(cuda, path);
        using weights = await (await importer.offer("weights")).map();
        assertEquals((await weights.read(Uint8Array))[0], 5);
      }
      const duration = performance.now() - since;
      assert(duration < promptly, `An honest importer was served after ${duration} ms`);
    };
    await serveHonest();
    const before = countDescriptors();
    await using crowd = startHostile("crowding_importers.py", [path, 120]);
    const served = Number(await firstLine(crowd));
    assert(served > 64 && served < 120, `${served} are served`);
    const few = "descriptors of 256 are left; raise the limit of that process (ulimit -n)";
    assertStringIncludes((await crowd.nextLine())!, `the limit is 8 connections of a process while at most 32 ${few}`);
    assertEquals(await child.nextLine(), "refused");
    await serveHonest();

    // Many processes, each with few connections, get what is kept for such, and no more.
    await using others = new AsyncDisposableStack();
    let refusal = "";
    for (let count = 0; refusal === ""; count++) {
      assert(count < 4, "Nobody was refused");
      const other = others.use(startHostile("crowding_importers.py", [path, 8]));
      await firstLine(other);
      refusal = (await other.nextLine())!;
    }
    assertStringIncludes(refusal, `the limit is reached when 16 ${few}`);
    assertEquals(await child.nextLine(), "error: out-of-descriptors");
    // The runtime may have taken some of what is left, or given back some that it had before: those are connections.
    const error = await assertRejects(async () => {
      for (let count = 0; count < 8; count++) others.use(await Importer.connect(cuda, path));
    }, SharingError);
    assertEquals(error.code, "limit-exceeded");
    assert(countDescriptors() <= 256 - 8, `${countDescriptors()} descriptors`);

    await others.disposeAsync();
    // Until their ends are noticed, all but what is kept for other uses may be taken.
    await waitUntil(() => countDescriptors() < 256 - 16, { signal: AbortSignal.timeout(eventually) });
    await serveHonest();
    crowd.kill("SIGKILL");
    await crowd.ended;
    // Signals have taken some.
    await waitUntil(() => countDescriptors() <= before + 8, { signal: AbortSignal.timeout(eventually) });
  }));

function noOtherUser(): string | undefined {
  return process.geteuid!() === 0 ? undefined : "it takes root to become another user";
}
