import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { type ChildProcess, remainingLines, startScript } from "../support/child_process.ts";
import { driversUnderTest } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";
import { test } from "../support/test.ts";

const script = "../examples/fabric_pool.ts";
const token = "0123456789abcdef";
const [handleByteLength, offerByteLength] = [64, 137];

for (const driver of driversUnderTest.filter(({ name }) => name === "software" || name === "cuda")) {
  test(`fabric_pool shares a pool, or says what it lacks [${driver.name}]`, { skip: driver.skip }, async () => {
    const permissions = ["--allow-ffi", "--allow-net", "--allow-run", "--allow-read=/tmp", "--allow-write=/tmp"];
    await using program = startScript(script, ["--bytes", "1MiB"], {
      permissions,
      env: { POOLPASS_DRIVER: driver.name },
    });
    const lines = await remainingLines(program);
    assertEquals(await program.ended, 0, await program.errors());
    if (driver.name === "software" || lines.length === 1) {
      assertEquals(lines, ["All 1048576 bytes are right"]);
    } else {
      assertMatch(lines[0]!, /IMEX channel/);
      assertEquals(lines[1], "Skipped: this machine has no fabric");
    }
  });
}

test(
  "fabric_pool's exporter serves who knows the token, and outlives the others",
  { skip: shimRefusal(), long: true },
  () =>
    inFolder(async (folder) => {
      await using exporter = startExporter(folder);
      const address = await addressOf(exporter);
      for (const bytes of [new Uint8Array(32), new Uint8Array(100_000).fill(7)]) {
        using socket = await connected(address);
        socket.write(bytes);
        await socket.closed;
      }
      await using stranger = startImporter(folder, address, "another secret of a stranger");
      assertEquals(await stranger.ended, 1);
      assertMatch(await stranger.errors(), /\[importer\] Error: The other program has closed the connection/);
      await using importer = startImporter(folder, address);
      assertEquals(await remainingLines(importer), ["All 1048576 bytes are right"]);
      assertEquals(await importer.ended, 0, await importer.errors());
      assertEquals(await exporter.ended, 0);
      const errors = (await remainingLines(exporter)).join("\n");
      assertEquals(errors.match(/Refused a connection: It does not know the token/g)?.length, 2, errors);
      assertStringIncludes(errors, "Refused a connection: The other program sends more than it may");
      assertStringIncludes(errors, "The importer has released the memory");
      assertEquals(readdirSync(folder), []);
    }),
);

test(
  "fabric_pool's importer may start before its exporter",
  { skip: shimRefusal(), long: true },
  () =>
    inFolder(async (folder) => {
      const server = createServer().listen(0, "127.0.0.1");
      await once(server, "listening");
      const address = `127.0.0.1:${(server.address() as { port: number }).port}`;
      server.close();
      await once(server, "close");
      await using importer = startImporter(folder, address);
      await using exporter = start(folder, ["--listen", address, "--bytes", "1MiB", "--token", token]);
      assertEquals(await remainingLines(importer), ["All 1048576 bytes are right"]);
      assertEquals([await importer.ended, await exporter.ended], [0, 0]);
    }),
);

test(
  "fabric_pool's exporter gives up the memory when the importer is gone",
  { skip: shimRefusal(), long: true },
  () =>
    inFolder(async (folder) => {
      for (
        const [last, message] of [
          [[], /The other program has closed the connection/],
          [["H".charCodeAt(0), 0], /the importer sent the byte 0/],
        ] as const
      ) {
        await using exporter = startExporter(folder);
        using socket = await connected(await addressOf(exporter));
        const greeting = await socket.read(48);
        socket.write(createHmac("sha256", token).update(greeting.subarray(16)).digest());
        const offer = await socket.read(offerByteLength);
        assertEquals(offer.length, offerByteLength);
        assertEquals(readdirSync(folder).length, 1);
        if (last.length > 0) socket.write(Uint8Array.from(last));
        else socket.end();
        assertEquals(await exporter.ended, 1);
        assertMatch((await remainingLines(exporter)).join("\n"), message);
        assertEquals(readdirSync(folder), []);
      }
    }),
);

test(
  "fabric_pool's exporter waits only so long for the importer",
  { skip: shimRefusal(), long: true },
  () =>
    inFolder(async (folder) => {
      await using exporter = startExporter(folder);
      const address = await addressOf(exporter);
      await using importer = startImporter(folder, address);
      await importer.ended;
      await exporter.ended;
      await using second = startExporter(folder);
      using socket = await connected(await addressOf(second));
      const greeting = await socket.read(48);
      socket.write(createHmac("sha256", token).update(greeting.subarray(16)).digest());
      await socket.read(offerByteLength);
      assertEquals(await second.ended, 1);
      assertStringIncludes(
        (await remainingLines(second)).join("\n"),
        "waited 10 s for the importer to renew its lease",
      );
      assertEquals(readdirSync(folder), []);
    }),
);

test("fabric_pool prints why a folder cannot be the fabric", { skip: shimRefusal() }, async () => {
  for (
    const [folder, message] of [
      ["relative", /Cannot use POOLPASS_SOFTWARE_FABRIC="relative": give the absolute path of a folder/],
      ["/tmp/poolpass-no-such-folder", /there is no such folder\); a fabric handle needs an IMEX channel/],
    ] as const
  ) {
    await using exporter = startExporter(folder);
    assertMatch((await remainingLines(exporter)).join("\n"), message);
    assertEquals(await exporter.ended, 1);
  }
});

test(
  "fabric_pool's importer checks what an exporter sends",
  { skip: shimRefusal(), long: true },
  () =>
    inFolder(async (folder) => {
      const greeting = new TextEncoder().encode(`POOLPASS-FABRIC1${"c".repeat(32)}`);
      const offer = (byteLength: bigint, handle: number) => {
        const bytes = new Uint8Array(offerByteLength).fill(handle, 0, handleByteLength);
        new DataView(bytes.buffer).setBigUint64(offerByteLength - 9, byteLength, true);
        return bytes;
      };
      for (
        const [sent, message] of [
          [[new Uint8Array(48)], /another program listens there/],
          [[greeting.subarray(0, 20)], /has closed the connection/],
          [[greeting, offer(0n, 0)], /offer of 0 bytes: the number is invalid/],
          [[greeting, offer(2n ** 64n - 1n, 0)], /offer of 18446744073709551615 bytes/],
          [[greeting, offer(4096n, 255)], /cudaErrorInvalidValue .*no fabric handle.*exportHandle of a pool/],
          [[greeting, new Uint8Array(100_000)], /sends more than it may/],
        ] as const
      ) {
        const server = createServer((socket) => {
          socket.on("error", () => {});
          for (const bytes of sent) socket.write(bytes);
          if (sent.length === 1) socket.end();
        });
        server.listen(0, "127.0.0.1");
        await once(server, "listening");
        const { port } = server.address() as { port: number };
        await using importer = startImporter(folder, `127.0.0.1:${port}`);
        assertEquals(await importer.ended, 1);
        assertMatch(await importer.errors(), message);
        server.close();
      }
    }),
);

test("fabric_pool names the arguments that it cannot use", { skip: shimRefusal(), long: true }, async () => {
  for (
    const [args, message] of [
      [["--listen", "7000", "--token", token], /Cannot use "7000" as an address/],
      [["--listen", "a:70000", "--token", token], /Cannot use "a:70000" as an address/],
      [["--listen", "a:1", "--connect", "a:1"], /Either --listen or --connect/],
      [["--listen", "a:1", "--token", "short"], /--token is needed, with at least 16 characters/],
      [["surplus"], /Unexpected argument "surplus"/],
    ] as const
  ) {
    await using program = startScript(script, args, { permissions: ["--allow-ffi", "--allow-net"] });
    assertEquals(await program.ended, 1);
    assertMatch(await program.errors(), message);
    assertMatch(await program.errors(), /Usage: fabric_pool/);
  }
});

function startExporter(folder: string): ChildProcess {
  // Its messages are read while it runs.
  const through = ["/bin/sh", "-c", 'exec "$0" "$@" 2>&1'];
  return start(folder, ["--listen", "127.0.0.1:0", "--bytes", "1MiB", "--token", token], through);
}

function startImporter(folder: string, address: string, secret: string = token): ChildProcess {
  return start(folder, ["--connect", address, "--token", secret]);
}

function start(folder: string, args: readonly string[], through: readonly string[] = []): ChildProcess {
  const env = { POOLPASS_DRIVER: "software", POOLPASS_SOFTWARE_FABRIC: folder };
  return startScript(script, args, { env, through, permissions: ["--allow-ffi", "--allow-net"] });
}

/** The address at which an exporter listens. */
async function addressOf(exporter: ChildProcess): Promise<string> {
  for (;;) {
    const line = await exporter.nextLine();
    if (line === undefined) throw new Error("The exporter has ended");
    const [, address] = /^\[exporter\] Listening at (\S+)$/.exec(line) ?? [];
    if (address !== undefined) return address;
  }
}

/** A connection of the test's own. */
async function connected(address: string) {
  const [host, port] = address.split(":") as [string, string];
  const socket: Socket = connect({ host, port: Number(port) });
  let unread: Uint8Array = new Uint8Array(0);
  let wake = () => {};
  let isClosed = false;
  socket.on("error", () => {});
  socket.on("data", (bytes: Uint8Array) => {
    unread = Uint8Array.of(...unread, ...bytes);
    wake();
  });
  const closed = new Promise<void>((resolve) => {
    socket.on("close", () => {
      isClosed = true;
      wake();
      resolve();
    });
  });
  await once(socket, "connect");
  return {
    closed,
    write: (bytes: Uint8Array) => void socket.write(bytes),
    end: () => void socket.end(),
    async read(byteLength: number): Promise<Uint8Array> {
      while (unread.length < byteLength && !isClosed) await new Promise<void>((resolve) => wake = resolve);
      const bytes = unread.slice(0, byteLength);
      unread = unread.slice(byteLength);
      return bytes;
    },
    [Symbol.dispose]: () => void socket.destroy(),
  };
}
