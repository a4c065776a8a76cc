/** Archives that are damaged, or forged. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import { open } from "../../mod.ts";
import { readNpz, writeNpz } from "../../npy.ts";
import { inFolder } from "../support/folders.ts";
import { test } from "../support/test.ts";

/** The bytes of an archive with the arrays `xx` and `yy`. */
async function archive({ compressed = false } = {}): Promise<Buffer> {
  let bytes: Buffer | undefined;
  await inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    using pool = cuda.device(0).createPool();
    using xx = pool.allocateArray(new Float32Array([1, 2, 3]));
    using yy = pool.allocateArray(Uint8Array.from({ length: 300 }, (_, index) => index * index));
    await writeNpz({ xx, yy }, `${folder}/a.npz`, { compressed });
    bytes = readFileSync(`${folder}/a.npz`);
  });
  return bytes!;
}

const stored = await archive();
const deflated = await archive({ compressed: true });
/** Where the entry of `yy` begins in the directory, and where the last records begin. */
const second = stored.lastIndexOf("PK\x01\x02");
const end = stored.indexOf("PK\x06\x06");

/** Returns the archive with other bytes at some places. */
function changed(bytes: Buffer, ...changes: readonly (readonly [at: number, value: number | string])[]): Buffer {
  const copy = Buffer.from(bytes);
  for (const [at, value] of changes) {
    if (typeof value === "string") copy.write(value, at, "latin1");
    else copy[at] = value;
  }
  return copy;
}

/** Where the sizes and the place of `yy` lie in the directory: its bytes, those in the archive, its header. */
const sizes = (index: number) => second + 46 + "yy.npy".length + 4 + 8 * index;

for (
  const [what, bytes, reason] of [
    ["nothing", Buffer.alloc(0), "it does not begin with the bytes PK"],
    ["a .npy file", Buffer.from("\x93NUMPY\x01\x00", "latin1"), "it is a .npy file, which readNpy reads"],
    ["no end", stored.subarray(0, -1), "it has no directory at its end: it is cut, or other bytes follow"],
    ["a byte more", Buffer.concat([stored, Buffer.alloc(1)]), "it has no directory at its end"],
    ["a directory that is cut", changed(stored, [end + 40, 10]), "does not end where its last record begins"],
    ["a directory beyond the file", changed(stored, [end + 53, 1]), "does not end where its last record begins"],
    ["a directory beyond 2 ** 53", changed(stored, [end + 55, 1]), "it states the size or place 7205"],
    ["another number of members", changed(stored, [end + 32, 3]), "its directory has 2 members, and should have 3"],
    ["a record that is not there", changed(stored, [end, "XX"]), `there is no record of its directory at byte ${end}`],
    ["no member in its directory", changed(stored, [second, "XX"]), "its directory has no member where one should be"],
    ["a long name", changed(stored, [second + 29, 9]), "its directory ends in a member"],
    ["an encrypted member", changed(stored, [second + 8, 1]), 'its member "yy.npy" is encrypted'],
    [
      "another compression",
      changed(stored, [second + 10, 14]),
      "is compressed by method 14; there are 0 and 8 (deflate)",
    ],
    ["another size", changed(stored, [sizes(0), 1]), 'its member "yy.npy" is stored in 428 bytes, and should have 257'],
    ["no size of 64 bits", changed(stored, [sizes(0) - 4, 9]), "has more than 4 GiB, and no field that says how many"],
    [
      "members on each other",
      changed(stored, [sizes(2), 60], [sizes(2) + 1, 0]),
      'its member "xx.npy" would end after byte 60, where the next part begins',
    ],
    [
      "a header elsewhere",
      changed(stored, [sizes(2), stored[sizes(2)]! + 1]),
      "is not the one that the directory describes",
    ],
    [
      "another name",
      changed(stored, [second + 46, "zz"]),
      'Cannot read "zz" of the bytes: its header has the name "yy.npy"',
    ],
    ["a name twice", changed(stored, [second + 46, "xx"]), 'it has the member "xx.npy" twice'],
    [
      "a member of another kind",
      changed(stored, [second + 46, "yy.txt"]),
      'its member "yy.txt" is not an array; give the n',
    ],
    [
      "damaged bytes",
      changed(stored, [stored.indexOf("PK\x01\x02") - 1, 7]),
      'Cannot read "yy" of the bytes: its bytes are dam',
    ],
    [
      "a damaged header",
      changed(stored, [stored.indexOf("NUMPY") + 5, 9]),
      'Cannot read "xx" of the bytes: it is not a .npy',
    ],
    [
      "damaged compressed bytes",
      changed(deflated, [deflated.indexOf("PK\x01\x02") - 9, "\xff\xff\xff\xff"]),
      'Cannot read "yy"',
    ],
  ] as const
) {
  test(`a .npz file with ${what} is refused`, async () => {
    using cuda = open({ driver: "software" });
    using pool = cuda.device(0).createPool();
    const error = await assertRejects(() => readNpz(new Uint8Array(bytes), { pool }), Error) as Error;
    assert(error.message.startsWith("Cannot read "), error.message);
    assert(error.message.includes(reason), error.message);
    assertEquals(pool.usage().used, 0);
  });
}

test("a member that is larger than it says, or shorter, is refused before its array is there", async () => {
  using cuda = open({ driver: "software" });
  using pool = cuda.device(0).createPool();
  const at = deflated.lastIndexOf("PK\x01\x02") + 46 + "yy.npy".length + 4;
  for (
    const [size, reason] of [[500, "300 follow"], [
      428 + 256,
      "its header is of an array of shape (300) with 300",
    ]] as const
  ) {
    const forged = Buffer.from(deflated);
    forged.writeUInt32LE(size, at);
    await assertRejects(
      () => readNpz(new Uint8Array(forged), { pool }),
      Error,
      size === 500 ? "several arrays" : reason,
    );
  }
  // The archive says less than there is.
  const forged = changed(deflated);
  forged.writeUInt32LE(427, at);
  await assertRejects(
    () => readNpz(new Uint8Array(forged), { pool }),
    Error,
    "it has more than the 427 bytes that it should",
  );
  assertEquals(pool.usage().used, 0);
});

test("an archive with bytes changed is read or refused, and nothing stays allocated", async () => {
  using cuda = open({ driver: "software" });
  using pool = cuda.device(0).createPool();
  let random = 3;
  const next = (below: number) => (random = Math.imul(random, 48271) >>> 0) % below;
  let readable = 0;
  for (let round = 0; round < 300; round++) {
    const bytes = new Uint8Array(round % 2 === 0 ? stored : deflated);
    bytes[next(bytes.length)] = next(256);
    const whole = round % 10 === 0 ? bytes.subarray(0, next(bytes.length)) : bytes;
    try {
      using arrays = await readNpz(whole, { pool });
      readable += Object.keys(arrays).length === 2 ? 1 : 0;
    } catch (error) {
      const { message } = error as Error;
      assert(error instanceof Error && message.startsWith("Cannot read "), message);
    }
  }
  assert(readable > 10 && readable < 200, `${readable} were readable`);
  assertEquals(pool.usage().used, 0);
});
