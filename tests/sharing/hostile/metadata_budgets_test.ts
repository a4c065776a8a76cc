import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { Cuda } from "../../../src/objects/cuda.ts";
import { open } from "../../../src/open.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer, type ImporterOptions } from "../../../src/sharing/importer/importer.ts";
import { SharingError } from "../../../src/support/errors.ts";
import { leakTest } from "../../support/resources.ts";
import { startCommand } from "../../support/child_process.ts";
import { test } from "../../support/test.ts";
import { noPython, startHostile } from "./hostile_peers.ts";

const mebibyte = 2 ** 20;
/** The length of the hoarder's names in bytes. */
const nameLength = 255;

async function inFolder(body: (folder: string, cuda: Cuda) => Promise<void>): Promise<void> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    using cuda = open({ driver: "software" });
    await body(folder, cuda);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Connects to an exporter that offers more than an importer holds, and asserts that it is refused by `limit`. */
async function assertRefused(
  cuda: Cuda,
  folder: string,
  { count, metadata, limit, ...options }: ImporterOptions & { count: number; metadata: number; limit: string },
): Promise<void> {
  await using hoarder = startHostile("hoarding_exporter.py", [`${folder}/hoarder`, count, nameLength, metadata]);
  assertEquals(await hoarder.nextLine() ?? await hoarder.errors(), "ready");
  await using importer = await Importer.connect(cuda, `${folder}/hoarder`, options);
  const error = await assertRejects(() => importer.offer("never"), SharingError);
  assertEquals(error.code, "limit-exceeded");
  assertStringIncludes(error.message, limit);
  assertEquals(await hoarder.nextLine(), `6 ${error.message}`);
  assertEquals(await hoarder.nextLine(), "over");
}

/** Asserts that an honest exporter is served within two seconds. */
async function assertServed(cuda: Cuda, folder: string): Promise<void> {
  const since = performance.now();
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  await using exporter = Exporter.listen(`${folder}/honest`);
  using buffer = pool.allocateArray(Uint32Array, 2);
  buffer.copyFrom(Uint32Array.of(5, 6));
  exporter.offer("weights", buffer, { metadata: { shape: [2] } });
  {
    await using importer = await Importer.connect(cuda, exporter.path);
    const offer = await importer.offer("weights");
    assertEquals(offer.metadata, { dtype: "uint32", shape: [2] });
    using weights = await offer.map();
    assertEquals(await weights.read(Uint32Array), Uint32Array.of(5, 6));
  }
  assert(performance.now() - since < 2000, `An honest exporter was served after ${performance.now() - since} ms`);
}

function warmUp(): Promise<void> {
  return inFolder((folder, cuda) => assertServed(cuda, folder));
}

leakTest("an exporter with more names and metadata than the limit is refused", () =>
  inFolder(async (folder, cuda) => {
    const limit = "the limit is 100000 bytes for all offers of an exporter (maximumMetadata), of which 99750 are used";
    await assertRefused(cuda, folder, { count: 20, metadata: 9720, maximumMetadata: 100_000, limit });
    await assertServed(cuda, folder);
  }), { skip: noPython, warmUp });

leakTest("an exporter with more offers than the limit is refused", () =>
  inFolder(async (folder, cuda) => {
    const limit = "Cannot accept another offer: the limit is 65536 offers of an exporter";
    await assertRefused(cuda, folder, { count: 65_537, metadata: 0, limit });
    await assertServed(cuda, folder);
  }), { skip: noPython, warmUp, long: true });

leakTest(
  "exporters that offer as much as they can cost an importer a limited amount of memory",
  () =>
    inFolder(async (folder, cuda) => {
      const before = residentBytes();
      const limit = `the limit is ${64 * mebibyte} bytes for all offers of an exporter (maximumMetadata)`;
      await assertRefused(cuda, folder, { count: 65_536, metadata: 32_768, limit });
      await assertServed(cuda, folder);
      const grown = residentBytes() - before;
      assert(grown < 400 * mebibyte, `The importer holds ${grown} bytes more`);
    }),
  { skip: noPython, warmUp, long: true },
);

leakTest(
  "all exporters together have a limit, which an ended connection no longer counts toward",
  () =>
    inFolder(async (folder, cuda) => {
      const options = { maximumMetadata: 300 * mebibyte };
      const excess = { count: 65_536, metadata: 32_768 };
      const ownLimit = `${300 * mebibyte} bytes for all offers of an exporter`;
      await assertRefused(cuda, folder, { ...options, ...excess, limit: ownLimit });
      await using large = startHostile("hoarding_exporter.py", [`${folder}/large`, 7500, nameLength, 32_768]);
      assertEquals(await large.nextLine(), "ready");
      {
        await using importer = await Importer.connect(cuda, `${folder}/large`, options);
        await importer.offer("7500".padStart(nameLength, "0"));
        const limit = `the limit is ${256 * mebibyte} bytes for the offers of all exporters`;
        await assertRefused(cuda, folder, { ...excess, limit });
      }
      await assertServed(cuda, folder);
    }),
  { skip: noPython, warmUp, long: true },
);

leakTest("an exporter refuses to offer more than importers hold", () =>
  inFolder(async (folder, cuda) => {
    using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
    await using exporter = Exporter.listen(`${folder}/exporter`, { maximumMetadata: 100 });
    await using importer = await Importer.connect(cuda, exporter.path, { maximumMetadata: 100 });
    using buffer = pool.allocate(64);
    const first = exporter.offer("é", buffer, { metadata: "x".repeat(88) });
    const text = 'Cannot offer "next": all offers would have 103 bytes of names and metadata, and the limit is 100';
    assertThrows(() => exporter.offer("next", buffer, { metadata: "three" }), RangeError, text);
    assertThrows(
      () => exporter.createChannel("next", { pool, slots: 1, slotByteLength: 4, metadata: "three" }),
      RangeError,
    );
    exporter.offer("next", buffer, { metadata: 1234 });
    assertEquals((await importer.offer("next")).metadata, 1234);
    first.withdraw();
    // It counts until it is withdrawn, here and there.
    for (let i = 0; i < 100; i++) {
      const offer = exporter.offer(`again ${i}`, buffer, { metadata: "y".repeat(76) });
      await importer.offer(`again ${i}`);
      offer.withdraw();
      await offer.ended();
    }
    assert(importer.isConnected);
  }), { warmUp });

test(
  "the Python client refuses more names and metadata than the limit",
  { skip: noPython, long: true },
  () =>
    inFolder(async (folder) => {
      await using hoarder = startHostile("hoarding_exporter.py", [`${folder}/hoarder`, 65_536, nameLength, 32_768]);
      assertEquals(await hoarder.nextLine(), "ready");
      const pythonPackage = fileURLToPath(new URL("../../../python", import.meta.url));
      const client = fileURLToPath(new URL("../../../examples/python/poolpass_client.py", import.meta.url));
      await using listing = startCommand([
        ...["/bin/sh", "-c", 'exec "$0" "$@" > /dev/null'],
        ...["env", `PYTHONPATH=${pythonPackage}`, "python3", client, "list", `${folder}/hoarder`, "--follow"],
      ]);
      const limit = `The limit is ${64 * mebibyte} bytes of names and metadata of all offers`;
      assertStringIncludes(await listing.errors(), limit);
      assertEquals(await hoarder.nextLine(), `6 ${limit}`);
    }),
);

function residentBytes(): number {
  return process.memoryUsage().rss;
}
