import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { ByteSource } from "../../src/files/byte_source.ts";
import {
  encodeSafetensorsHeader,
  parseSafetensorsHeader,
  readSafetensorsHeader,
  type SafetensorsTensor,
} from "../../src/files/safetensors_header.ts";
import { layOutTensors } from "../../src/files/tensor_layout.ts";
import { test } from "../support/test.ts";

const tensors: readonly SafetensorsTensor[] = [
  { name: "a", dtype: "float32", shape: [2, 3], byteOffset: 0, byteLength: 24 },
  { name: "empty", dtype: "bfloat16", shape: [0, 2 ** 40, 2 ** 40], byteOffset: 24, byteLength: 0 },
  { name: 'b "é"', dtype: "bfloat16", shape: [4], byteOffset: 24, byteLength: 8 },
  { name: "scalar", dtype: "int64", shape: [], byteOffset: 32, byteLength: 8 },
  { name: "__proto__", dtype: "float4_e2m1fn", shape: [3, 2], byteOffset: 40, byteLength: 3 },
];

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Reads a file that consists of these bytes and `dataByteLength` others. */
function read(prefixAndHeader: Uint8Array, dataByteLength = 0) {
  const source: ByteSource = {
    name: '"a.safetensors"',
    path: undefined,
    readers: 1,
    byteLength: prefixAndHeader.length + dataByteLength,
    read(target, position) {
      const found = prefixAndHeader.subarray(position, position + target.length);
      target.set(found);
      return Promise.resolve(found.length);
    },
    async [Symbol.asyncDispose]() {},
  };
  return readSafetensorsHeader(source);
}

function withLength(header: Uint8Array, length: bigint = BigInt(header.length)): Uint8Array {
  const file = new Uint8Array(8 + header.length);
  new DataView(file.buffer).setBigUint64(0, length, true);
  file.set(header, 8);
  return file;
}

test("a header says what was encoded, in the order of the bytes", async () => {
  const metadata = new Map([["format", "pt"], ["__proto__", "a key like others"]]);
  const encoded = encodeSafetensorsHeader({ metadata, tensors: tensors.toReversed() });
  assertEquals(encoded.length % 8, 0);
  const header = await read(encoded, 43);
  assertEquals(header, { metadata, tensors, dataOffset: encoded.length, dataByteLength: 43 });
  assertEquals(await read(withLength(bytesOf("{}"))), {
    metadata: new Map(),
    tensors: [],
    dataOffset: 10,
    dataByteLength: 0,
  });
});

const one = { dtype: "U8", shape: [4], data_offsets: [0, 4] };

for (
  const [what, header, dataByteLength, reason] of [
    ["no object", "[]", 0, "its header does not begin with {"],
    ["a space before the brace", " {}", 0, "its header does not begin with {"],
    ["half an object", '{"a":', 0, "its header is not JSON"],
    ["something behind the object", "{}{}", 0, "its header is not JSON"],
    ["a null tensor", { a: null }, 0, 'tensor "a" is no object'],
    ["a list for a tensor", { a: [] }, 0, 'tensor "a" is no object'],
    ["no dtype", { a: { ...one, dtype: undefined } }, 4, 'the dtype of tensor "a" is no string'],
    ["an unknown dtype", { a: { ...one, dtype: "F12" } }, 4, 'its dtype "F12" is unknown'],
    ["a member of all objects as dtype", { a: { ...one, dtype: "toString" } }, 4, 'its dtype "toString" is unknown'],
    ["no shape", { a: { ...one, shape: undefined } }, 4, 'the shape of tensor "a" is no list of whole numbers'],
    ["a negative length", { a: { ...one, shape: [-4] } }, 4, 'the shape of tensor "a" is no list'],
    ["half an element", { a: { ...one, shape: [3.5] } }, 4, 'the shape of tensor "a" is no list'],
    ["a string in a shape", { a: { ...one, shape: ["4"] } }, 4, 'the shape of tensor "a" is no list'],
    [
      "a shape that overflows",
      { a: { ...one, shape: [2 ** 32, 2 ** 32] } },
      4,
      "its shape has more elements than any file",
    ],
    [
      "a million dimensions",
      { a: { ...one, shape: Array(10 ** 6).fill(2 ** 50) } },
      4,
      "its shape has 1000000 dimensions, and may have 64",
    ],
    ["half a byte", { a: { dtype: "F4", shape: [3], data_offsets: [0, 1] } }, 1, "its 12 bits are no whole bytes"],
    ["one offset", { a: { ...one, data_offsets: [0] } }, 4, 'the data_offsets of tensor "a" are not two whole numbers'],
    ["an offset beyond 2 ** 53", { a: { ...one, data_offsets: [0, 2 ** 60] } }, 4, "are not two whole numbers"],
    [
      "an end before the begin",
      { a: { ...one, data_offsets: [4, 0] } },
      4,
      "ends at byte 0, before it begins at byte 4",
    ],
    ["another length than the shape's", { a: { ...one, shape: [5] } }, 4, "has 4 bytes, and U8 of shape [5] has 5"],
    ["a gap before the first", { a: { ...one, data_offsets: [1, 5] } }, 5, 'tensor "a" leaves a gap behind the header'],
    ["a gap", { a: one, b: { ...one, data_offsets: [5, 9] } }, 9, 'tensor "b" leaves a gap behind tensor "a"'],
    ["an overlap", { a: one, b: { ...one, data_offsets: [3, 7] } }, 7, 'tensor "b" overlaps tensor "a"'],
    ["the same bytes twice", { a: one, b: one }, 4, 'tensor "b" overlaps tensor "a"'],
    ["an end beyond the file", { a: one }, 3, "its tensors have 4 bytes, and the file has 3 bytes of data"],
    ["bytes of no tensor", { a: one }, 5, "its tensors have 4 bytes, and the file has 5 bytes of data"],
    ["a number in __metadata__", { __metadata__: { step: 1 } }, 0, '"step" of __metadata__ is no string'],
    ["__metadata__ that is a list", { __metadata__: [] }, 0, "__metadata__ is no object"],
    [
      "a name twice",
      `{"a":${JSON.stringify(one)}, "\\u0061" :${JSON.stringify(one)}}`,
      4,
      'its header names "a" twice',
    ],
  ] as const
) {
  test(`a header with ${what} is refused`, () => {
    const bytes = bytesOf(typeof header === "string" ? header : JSON.stringify(header));
    const error = assertThrows(() => parseSafetensorsHeader(bytes, dataByteLength), Error) as Error;
    assert(error.message.startsWith("it is not a safetensors file: "), error.message);
    assert(error.message.includes(reason), error.message);
  });
}

test("keys that repeat within tensors, and names in strings, are no names twice", () => {
  const text = '{"__metadata__":{"a":"{\\"a\\":1,\\\\","b":"]"},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}';
  assertEquals(parseSafetensorsHeader(bytesOf(text), 0).tensors.map(({ name }) => name), ["a"]);
});

test("a header that is not UTF-8 is refused", () => {
  assertThrows(
    () => parseSafetensorsHeader(Uint8Array.of(0x7b, 0x22, 0xff, 0x22), 0),
    Error,
    "its header is not UTF-8",
  );
});

test("a length that no header has is refused before anything is read", async () => {
  const refused = async (file: Uint8Array, reason: string, dataByteLength = 0) => {
    await assertRejects(() => read(file, dataByteLength), Error, reason);
  };
  await refused(Uint8Array.of(2, 0, 0), "it has 3 bytes, and a header's length has 8");
  await refused(new Uint8Array(), "it has 0 bytes");
  await refused(
    bytesOf("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n"),
    "fetch the file itself with git lfs",
  );
  await refused(
    bytesOf("PK\u0003\u0004\u0000\u0000\b\b\u0000"),
    "it is a zip archive, as torch.save writes; convert it",
  );
  await refused(
    Uint8Array.of(0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46),
    "it is a pickle, as older versions of torch.save",
  );
  await refused(bytesOf("GGUF\u0003\u0000\u0000\u0000"), "it is a GGUF file");
  await refused(bytesOf("<!DOCTYPE html><html>"), "it is a page of a web site");
  await refused(withLength(bytesOf("{}"), 0n), "its header does not begin with {");
  await refused(withLength(bytesOf("{}"), 3n), "its header would have 3 bytes, and the file has 10 bytes in all");
  await refused(
    withLength(bytesOf("{}"), 100_000_001n),
    "its header would have 100000001 bytes, and may have",
    2 ** 30,
  );
  await refused(withLength(bytesOf("{}"), 2n ** 64n - 1n), "its header would have 18446744073709551615 bytes");
  // The file was cut after its size was taken.
  await refused(withLength(bytesOf("{}"), 100n), "was cut to 10 while it was read", 1000);
});

test("tensors are aligned in memory, and what is aligned in the file is copied at once", () => {
  const { tensors: placed, runs, end } = layOutTensors(tensors);
  assertEquals(placed.map(({ byteOffset }) => byteOffset), [0, 256, 256, 512, 768]);
  assertEquals(end, 771);
  assertEquals(runs, [
    { sourceOffset: 0, targetOffset: 0, byteLength: 24 },
    { sourceOffset: 24, targetOffset: 256, byteLength: 8 },
    { sourceOffset: 32, targetOffset: 512, byteLength: 8 },
    { sourceOffset: 40, targetOffset: 768, byteLength: 3 },
  ]);
  const large = [0, 1, 2].map((index) => (
    { name: `${index}`, dtype: "uint8", shape: [512], byteOffset: 512 * index, byteLength: 512 }
  ));
  assertEquals(layOutTensors(large), {
    tensors: large,
    runs: [{ sourceOffset: 0, targetOffset: 0, byteLength: 1536 }],
    end: 1536,
  });
});
