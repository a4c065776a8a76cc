/**
 * Shares, and writes the log to standard error: POOLPASS_LOG=1 node tests/children/sharing/logging_peer.ts MODE PATH.
 * "export" offers memory and a channel to one importer, and cuts another one off; "import" waits for an exporter and for its end;
 * "many" makes more offers than a pipe can hold lines of; "refuse" listens, refuses two imports, and prints what it has refused.
 *
 * @module
 */
import process from "node:process";
import { Exporter, Importer, open, prometheusText, refusalStatistics } from "../../../mod.ts";
import { waitUntil } from "../../../src/support/waiting/waiting.ts";

const [mode, path] = process.argv.slice(2) as ["export" | "import" | "many" | "refuse", string];
if (mode === "import") await importOffers();
else if (mode === "many") await offerMany();
else if (mode === "refuse") await refuseImports();
else await exportOffers();
console.log("done");
process.exit();

async function importOffers(): Promise<void> {
  using cuda = open();
  const connecting = Importer.connect(cuda, path, { wait: true });
  console.log("connecting"); // the first attempt has failed
  await using importer = await connecting;
  for await (const _ of importer.offers());
}

async function offerMany(): Promise<void> {
  using cuda = open();
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  await using exporter = Exporter.listen(path);
  using buffer = pool.allocate(64);
  for (let count = 0; count < 100; count++) exporter.offer(`${"x".repeat(250)}${count}`, buffer).withdraw();
}

async function refuseImports(): Promise<void> {
  using cuda = open();
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  await using _exporter = Exporter.listen(path);
  using buffer = pool.allocate(4096);
  using handle = pool.exportHandle();
  using imported = gpu.importPool(handle);
  const exportData = buffer.exportPointer();
  for (const byteLength of [0, 8 * 2 ** 30]) {
    // The size that it states.
    new DataView(exportData.buffer).setBigUint64(32, BigInt(byteLength), true);
    try {
      using _mapped = imported.importPointer(exportData, 1);
    } catch (error) {
      console.log((error as { code: string }).code);
    }
  }
  console.log(JSON.stringify(prometheusText(refusalStatistics())));
  await new Promise((resolve) => process.once("SIGTERM", resolve));
}

async function exportOffers(): Promise<void> {
  // The log starts here, before there is a device.
  await using exporter = Exporter.listen(path);
  using cuda = open();
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(64);
  const offer = exporter.offer('a "name"\nof \u202etwo lines \x1b[31m', buffer);
  console.log("listening");
  await offer.released();
  offer.withdraw();
  await offer.ended();
  {
    await using channel = exporter.createChannel("frames", {
      pool,
      slots: 2,
      slotByteLength: 64,
      overflow: "drop-oldest",
    });
    await waitUntil(() => channel.consumers.length === 1);
    for (let frame = 1; frame <= 3; frame++) channel.send(await channel.reserve());
    await waitUntil(() => channel.consumers.length === 0);
  }
  const stubborn = exporter.offer("stubborn", buffer);
  await waitUntil(() => stubborn.leases.length === 1);
  await stubborn.leases[0]!.recall({ deadline: 1 }).catch(() => {});
  console.log("cut off");
  stubborn.withdraw();
  await stubborn.ended();
}
