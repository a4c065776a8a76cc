import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Exporter, Importer, open } from "../../mod.ts";
import { inFolder } from "../support/folders.ts";
import { warningsOf } from "../support/warnings.ts";
import { sharingTest } from "./sharing_peers.ts";

const awaitIt = "was disposed while it was still waiting; await it before the end of the block";

sharingTest(
  "a connection or an offer that nobody awaits says what was disposed meanwhile",
  () =>
    inFolder(async (folder) => {
      const path = `${folder}/socket`;
      await using exporter = Exporter.listen(path);
      const cuda = open({ driver: "software" });
      const later = `${folder}/later`;
      const connections = [Importer.connect(cuda, path), Importer.connect(cuda, later, { wait: true })];
      cuda[Symbol.dispose]();
      const results = await Promise.allSettled(connections);
      const messages = results.map((result) => (result as PromiseRejectedResult).reason.message);
      assertEquals(messages, [path, later].map((each) => `Cannot connect to ${each}: the Cuda object ${awaitIt}`));
      await assertRejects(() => Importer.connect(cuda, path), ReferenceError, `${path}: the Cuda object was disposed`);

      using other = open({ driver: "software" });
      const importer = await Importer.connect(other, path);
      const offer = importer.offer("never");
      const ended = assertRejects(() => offer, ReferenceError);
      await importer[Symbol.asyncDispose]();
      assertEquals((await ended).message, `Cannot wait for "never": the importer ${awaitIt}`);
      assertEquals(exporter.leases.length, 0);
    }),
  { softwareOnly: true },
);

sharingTest(
  "the end of a Cuda object warns of an importer whose connection keeps the process running",
  () =>
    inFolder(async (folder) => {
      await using exporter = Exporter.listen(`${folder}/socket`);
      const cuda = open({ driver: "software" });
      await using importer = await Importer.connect(cuda, exporter.path);
      const closed = await Importer.connect(cuda, exporter.path);
      await closed[Symbol.asyncDispose]();
      const warnings = await warningsOf(() => cuda[Symbol.dispose]());
      assertEquals(warnings.length, 1, warnings.join("\n"));
      assert(warnings[0]!.includes(`importer of process ${importer.peer.pid}`), warnings[0]);
      assert(warnings[0]!.includes("`await using`"), warnings[0]);
    }),
  { softwareOnly: true },
);

sharingTest(
  "`using` in place of `await using` is refused with that advice, and begins the disposal",
  () =>
    inFolder(async (folder) => {
      const path = `${folder}/socket`;
      const { promise: isClosed, resolve: onDisconnect } = Promise.withResolvers<void>();
      const exporter = Exporter.listen(path, { onDisconnect: () => onDisconnect() });
      using cuda = open({ driver: "software" });
      const importer = await Importer.connect(cuda, path);
      for (const declared of [importer, exporter] as unknown as Disposable[]) {
        // To look at the property does nothing.
        assertEquals(typeof declared[Symbol.dispose], "function");
        assert(importer.isConnected || declared !== importer as unknown);
        assertThrows(
          () => {
            using _ = declared;
          },
          TypeError,
          `Cannot declare an ${declared.constructor.name} with using: its disposal waits for others; declare it with ` +
            "await using",
        );
      }
      await isClosed;
      assert(!importer.isConnected);
      assertThrows(
        () => exporter.offer("late", cuda.device(0).createPool()),
        ReferenceError,
        "the exporter was disposed",
      );
      await Promise.all([importer, exporter].map((each) => each[Symbol.asyncDispose]()));
    }),
  { softwareOnly: true },
);

sharingTest("a promise in place of a buffer says that it was not awaited", async () => {
  using cuda = open({ driver: "software" });
  using pool = cuda.device(0).createPool();
  using buffer = pool.allocate(64);
  const reading = buffer.read(Uint8Array);
  const copy = () => buffer.copyFrom(reading as unknown as Uint8Array);
  assertThrows(copy, TypeError, "Cannot copy from a Promise that was not awaited: give");
  await reading;
}, { softwareOnly: true });
