/** The digests of memory and the revision of weights, compared with those that Node's own SHA-256 gives. */
import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { GrowingRevision, revisionOf, revisionOfTensors } from "../../src/weights/revision.ts";
import { treeDigests } from "../../src/weights/tree_digest.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { isLong, test } from "../support/test.ts";

const piece = 16_384;

/** The digest of bytes, level by level. */
function treeOf(bytes: Uint8Array): string {
  const count = Math.max(1, Math.ceil(bytes.length / piece));
  const digests = Array.from({ length: count }, (_, index) => {
    return createHash("sha256").update(bytes.subarray(piece * index, piece * (index + 1))).digest();
  });
  return count === 1 ? digests[0]!.toString("hex") : treeOf(new Uint8Array(Buffer.concat(digests)));
}

testOnEachDriver("the digests of memory are those of its bytes, for any length and any address", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  const lengths = [
    0,
    1,
    3,
    4,
    55,
    56,
    63,
    64,
    65,
    119,
    120,
    128,
    piece - 9,
    piece - 1,
    piece,
    piece + 1,
    3 * piece + 5,
  ];
  // More pieces than a piece has digests: a third level.
  if (isLong || cuda.driver === "cuda") lengths.push(513 * piece + 7, 512 * piece);
  const offsets = lengths.map((_, index) => index % 5);
  const ends = lengths.map((length, index) => 8 + length + offsets[index]!);
  const total = ends.reduce((sum, end) => sum + Math.ceil(end / 8) * 8, 0);
  const bytes = Uint8Array.from({ length: total }, (_, index) => (index * 2_654_435_761 >>> 13) & 255);
  using buffer = pool.allocate(total, stream);
  buffer.copyFrom(bytes, stream);
  let begin = 0;
  const ranges = lengths.map((byteLength, index) => {
    const byteOffset = begin + offsets[index]!;
    begin += Math.ceil(ends[index]! / 8) * 8;
    return { buffer, byteOffset, byteLength };
  });
  const digests = await treeDigests(ranges, { stream });
  assertEquals(
    digests.map((digest) => digest.toHex()),
    ranges.map(({ byteOffset, byteLength }) => treeOf(bytes.subarray(byteOffset, byteOffset + byteLength))),
  );
  assertEquals(await treeDigests([], { stream }), []);
  await assertRejects(
    () => treeDigests(ranges, { stream, signal: AbortSignal.abort() }),
    DOMException,
    "digests of memory",
  );
});

test("the revision of tensors does not depend on their order, and on everything else", async () => {
  const digest = new Uint8Array(32).fill(7);
  const tensors = [
    // In UTF-16, the second name sorts before the first.
    { name: "\uffff", dtype: "F32", shape: [2, 3], digest },
    { name: "\u{10000}", dtype: "F32", shape: [], digest },
    { name: "a", dtype: "BF16", shape: [0], digest: new Uint8Array(32) },
  ];
  const line = (name: string, rest: string) => `${name}\0${rest}\n`;
  const seven = "07".repeat(32);
  const expected = createHash("sha256").update(
    line("a", `BF16\0${"0"}\0${"00".repeat(32)}`) + line("\uffff", `F32\0${"2,3"}\0${seven}`) +
      line("\u{10000}", `F32\0\0${seven}`),
  ).digest("hex");
  assertEquals(await revisionOf(tensors), expected);
  assertEquals(await revisionOf(tensors.toReversed()), expected);
  const changes = [{ name: "b" }, { dtype: "F64" }, { shape: [3, 2] }, { digest: new Uint8Array(32).fill(8) }];
  for (const change of changes) {
    assertNotEquals(await revisionOf([{ ...tensors[0]!, ...change }, ...tensors.slice(1)]), expected);
  }
});

testOnEachDriver("the revision is the same when tensors are hashed while they arrive", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  const tensors = Array.from({ length: 9 }, (_, index) => (
    {
      name: `t${index}`,
      dtype: "int32" as const,
      shape: [1000 - index],
      byteOffset: 4000 * (8 - index),
      byteLength: 4 * (1000 - index),
    }
  ));
  using array = pool.allocateArray(Int32Array.from({ length: 9000 }, (_, index) => index));
  const whole = await revisionOfTensors(tensors, array, undefined);
  for (const steps of [[36_000], [3, 4000, 4001, 17_000, 36_000], [30_000]]) {
    const growing = new GrowingRevision(tensors, array, undefined);
    for (const step of steps) growing.advance(step);
    assertEquals(await growing.finish(), whole);
    await growing.settle();
  }
});
