import { assert, assertEquals, assertInstanceOf, assertRejects, assertStringIncludes } from "@std/assert";
import { SharingError } from "../../../src/support/errors.ts";
import { open } from "../../../src/open.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { waitUntil } from "../../../src/support/waiting/waiting.ts";
import { inFolder } from "../../support/folders.ts";
import { leakTest } from "../../support/resources.ts";
import { noPython, startHostile } from "./hostile_peers.ts";

/** Milliseconds that connecting may take. */
const timeout = 100;
/** Milliseconds after which a user would notice that a time limit is not kept. */
const noticeable = 2000;

leakTest(
  "connecting to a stopped process with a full backlog ends within the handshake's time limit",
  () =>
    inFolder(async (folder) => {
      using cuda = open({ driver: "software" });
      const path = `${folder}/stopped`;
      await using listener = startHostile("stopped_listener.py", [path]);
      assertEquals(await listener.nextLine(), "full", await Promise.race([listener.errors(), ""]));
      listener.kill("SIGSTOP");
      const since = performance.now();
      const error = await assertRejects(
        () => Importer.connect(cuda, path, { handshakeTimeout: timeout }),
        SharingError,
      );
      assert(performance.now() - since < noticeable);
      assertEquals(error.code, "timed-out");
      assertStringIncludes(error.message, `Cannot connect to ${path}: the process that listens there did not accept`);
      assertStringIncludes(error.message, `within ${timeout} ms`);
      const own = new Error("own");
      for (const reason of [own, "a string"]) {
        const connecting = Importer.connect(cuda, path, { signal: AbortSignal.abort(reason) });
        assertEquals(await connecting.catch((error: unknown) => error), reason);
      }
      const controller = new AbortController();
      const connecting = Importer.connect(cuda, path, { signal: controller.signal });
      controller.abort();
      assertAborted(await connecting.catch((error: unknown) => error), controller.signal, path);
      const waiting = UnixSocket.connect(path, { signal: AbortSignal.timeout(10) });
      const late = await waiting.catch((error: unknown) => error);
      assertInstanceOf(late, DOMException);
      assertEquals((late as Error).name, "TimeoutError");
      assertEquals(
        (late as Error).message,
        `Waiting for the process that listens at ${path} to accept a connection timed out`,
      );
    }),
  { skip: noPython, warmUp },
);

leakTest(
  "an aborted wait says what was awaited, unless it was aborted with an error of the application",
  () =>
    inFolder(async (folder) => {
      using cuda = open({ driver: "software" });
      await using exporter = Exporter.listen(`${folder}/exporter`);
      using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
      using buffer = pool.allocate(64);
      const offer = exporter.offer("weights", buffer);
      await using channel = exporter.createChannel("frames", { pool, slots: 1, slotByteLength: 4 });
      await using importer = await Importer.connect(cuda, exporter.path);
      await using consumer = await importer.channel("frames");
      using _slot = await channel.reserve();
      const { pid } = importer.peer;
      const offered = Array.from({ length: 9 }, (_, index) => `${index}`.repeat(index === 0 ? 100 : 1));
      for (const name of offered) exporter.offer(name, buffer);
      await importer.offer(offered.at(-1)!);
      const listed = `"weights", "frames", "${"0".repeat(40)}...", "1", "2", "3", "4", "5" and 3 more`;
      const waits:
        readonly (readonly [awaited: string, wait: (signal: AbortSignal) => Promise<unknown>, why?: string])[] = [
          [
            `offer "n\\x1bo" of process ${pid}`,
            (signal) => importer.offer("n\x1bo", { signal }),
            `the exporter offers ${listed}`,
          ],
          [
            `offer "wieghts" of process ${pid}`,
            (signal) => importer.offer("wieghts", { signal }),
            'the exporter offers "weights"; is the name right?',
          ],
          [
            `offer "Frame" of process ${pid}`,
            (signal) => importer.channel("Frame", { signal }),
            'the exporter offers "frames"; is the name right?',
          ],
          ['a frame of "frames"', (signal) => consumer.next({ signal })],
          [
            'a free slot of "frames"',
            (signal) => channel.reserve({ signal }),
            "1 of 1 slot is reserved here, neither sent nor disposed of",
          ],
          ['a release of "weights"', (signal) => offer.released({ signal })],
          ['the end of offer "weights"', (signal) => offer.ended({ signal }), "it was not withdrawn"],
        ];
      for (const [awaited, wait, why] of waits) {
        const controller = new AbortController();
        const waiting = wait(controller.signal);
        controller.abort();
        assertAborted(await waiting.catch((error: unknown) => error), controller.signal, awaited, why);
        const own = new AbortController();
        const ended = wait(own.signal);
        own.abort("a reason of its own");
        assertEquals(await ended.catch((error: unknown) => error), "a reason of its own");
      }
      using _mapped = await (await importer.offer("weights")).map();
      await waitUntil(() => offer.leases.length === 1);
      const signal = AbortSignal.abort();
      const held = `process ${pid} holds it`;
      const unreleased = await offer.released({ signal }).catch((error: unknown) => error);
      assertAborted(unreleased, signal, 'a release of "weights"', held);
      offer.withdraw();
      const unended = await offer.ended({ signal }).catch((error: unknown) => error);
      assertAborted(unended, signal, 'the end of offer "weights"', held);
    }),
  { warmUp },
);

function assertAborted(error: unknown, { reason }: AbortSignal, awaited: string, why?: string): void {
  assertInstanceOf(error, DOMException);
  const { name, message, cause } = error as Error;
  assertEquals([name, cause], ["AbortError", reason]);
  const end = why === undefined ? " was aborted" : ` was aborted: ${why}`;
  assert(message.startsWith("Waiting for ") && message.endsWith(end), message);
  assertStringIncludes(message, awaited);
}

function warmUp(): Promise<void> {
  return inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    await using exporter = Exporter.listen(`${folder}/exporter`);
    await using _importer = await Importer.connect(cuda, exporter.path);
  });
}
