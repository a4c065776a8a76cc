import { assert, assertEquals, assertRejects } from "@std/assert";
import { Buffer } from "node:buffer";
import { mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import type { DeviceArray, TypedArray } from "../../mod.ts";
import { openSafetensors, readSafetensors, writeSafetensors } from "../../safetensors.ts";
import { elementTypeOf } from "../../src/memory/dtypes.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";

/** The name that the format has for each dtype. */
const dtypes: Readonly<Record<string, string>> = {
  bool: "BOOL",
  int8: "I8",
  uint8: "U8",
  int16: "I16",
  uint16: "U16",
  int32: "I32",
  uint32: "U32",
  int64: "I64",
  uint64: "U64",
  float16: "F16",
  bfloat16: "BF16",
  float32: "F32",
  float64: "F64",
  complex64: "C64",
  float8_e4m3fn: "F8_E4M3",
  float8_e4m3fnuz: "F8_E4M3FNUZ",
  float8_e5m2: "F8_E5M2",
  float8_e5m2fnuz: "F8_E5M2FNUZ",
  float8_e8m0fnu: "F8_E8M0",
  float6_e2m3fn: "F6_E2M3",
  float6_e3m2fn: "F6_E3M2",
  float4_e2m1fn: "F4",
};

/** A file with a header, padded, and data. */
function fileOf(header: object | string, data: Uint8Array = new Uint8Array()): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(typeof header === "string" ? header : JSON.stringify(header));
  const file = new Uint8Array(8 + text.length + data.length);
  new DataView(file.buffer).setBigUint64(0, BigInt(text.length), true);
  file.set(text, 8);
  file.set(data, 8 + text.length);
  return file;
}

function bytesOf(array: TypedArray): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

testOnEachDriver("tensors of each dtype are written and read again, with metadata", async (cuda) => {
  await inFolder(async (folder) => {
    using pool = cuda.device(0).createPool();
    using allocator = pool.createCachingAllocator();
    using stream = cuda.device(0).createStream();
    using arrays = new DisposableStack();
    const written: Record<string, DeviceArray<TypedArray>> = {};
    for (const dtype of Object.keys(dtypes)) {
      const array = arrays.use(
        allocator.allocateArray(elementTypeOf(dtype)!.type, { shape: [2, 4, 3], dtype }, stream),
      );
      array.as(Uint8Array).copyFrom(Uint8Array.from({ length: array.byteLength }, (_, index) => index * 7 + 1));
      written[dtype] = array;
    }
    written.empty = arrays.use(pool.allocateArray(Uint16Array, { shape: [0, 7], dtype: "bfloat16" }));
    written.scalar = arrays.use(pool.allocateArray(Float32Array, { shape: [] }));
    written.scalar.fill(0.5);
    written.__metadata = written.scalar;
    const path = `${folder}/model.safetensors`;
    await writeSafetensors(written, path, { metadata: { format: "pt", π: "3.14" } });

    // The header, by the description of the format.
    const bytes = readFileSync(path);
    const length = Number(bytes.readBigUInt64LE(0));
    assertEquals(length % 8, 0);
    const { __metadata__, ...described } = JSON.parse(bytes.toString("utf8", 8, 8 + length));
    assertEquals(__metadata__, { format: "pt", π: "3.14" });
    for (const [dtype, name] of Object.entries(dtypes)) {
      const { dtype: stated, shape, data_offsets: [begin, end] } = described[dtype];
      assertEquals([stated, shape, end - begin], [name, [2, 4, 3], written[dtype]!.byteLength], dtype);
      const data = bytes.subarray(8 + length + begin, 8 + length + end);
      assert(data.equals(Buffer.from(bytesOf(await written[dtype]!.toTypedArray()))), dtype);
    }

    for (const source of [path, new Uint8Array(bytes), new Blob([bytes])]) {
      using tensors = await readSafetensors(source, { pool, stream });
      assertEquals([...tensors.metadata], [["format", "pt"], ["π", "3.14"]]);
      assertEquals([...tensors.keys()].sort(), Object.keys(written).sort());
      for (const [name, array] of tensors) {
        const { dtype, shape, type } = written[name]!;
        assertEquals([array.dtype, [...array.shape], array.type], [dtype, [...shape], type], name);
        assertEquals(array.address % 256n, 0n, name);
        assertEquals(bytesOf(await array.toTypedArray()), bytesOf(await written[name]!.toTypedArray()), name);
      }
      // And again from there.
      await writeSafetensors(tensors, `${folder}/again.safetensors`, { metadata: tensors.metadata });
      assert(readFileSync(`${folder}/again.safetensors`).equals(bytes));
    }
    using some = await readSafetensors(path, { device: cuda.device(0), names: ["scalar", "bool"] });
    assertEquals([[...some.keys()].sort(), some.buffer.byteLength], [["bool", "scalar"], 256 + 24]);
    assertEquals(readdirSync(folder).sort(), ["again.safetensors", "model.safetensors"]);
  });
});

testOnEachDriver("a file of many tensors, small and large, is read in pieces", async (cuda) => {
  await inFolder(async (folder) => {
    const header: Record<string, object> = {};
    const lengths = [
      ...Array.from({ length: 1500 }, (_, index) => index % 61),
      40 * 2 ** 20 + 5,
      3,
      17 * 2 ** 20,
      70_000,
    ];
    let end = 0;
    for (const [index, length] of lengths.entries()) {
      header[`tensor ${index}`] = { dtype: "U8", shape: [length], data_offsets: [end, end += length] };
    }
    const data = new Uint8Array(end);
    const words = new Uint32Array(data.buffer, 0, data.length >> 2);
    for (let index = 0; index < words.length; index++) words[index] = Math.imul(index, 2654435761);
    const path = `${folder}/a.safetensors`;
    writeFileSync(path, fileOf(header, data));
    using pool = cuda.device(0).createPool();
    const progress: number[] = [];
    using tensors = await readSafetensors(path, {
      pool,
      onProgress: ({ loaded, total }) => {
        assertEquals(total, end);
        progress.push(loaded);
      },
    });
    assertEquals([progress.at(-1), progress.length > 10 && progress.length < 40], [end, true]);
    let begin = 0;
    for (const [index, length] of lengths.entries()) {
      // Most of the small ones are like the others.
      if (length > 1000 || index % 50 === 7) {
        const found = await tensors.get(`tensor ${index}`)!.read(Uint8Array);
        assert(Buffer.compare(found, data.subarray(begin, begin + length)) === 0, `tensor ${index}`);
      }
      begin += length;
    }
    // Those that are left out are not read, or not copied.
    using few = await readSafetensors(path, { pool, names: ["tensor 1503", "tensor 7", "tensor 2"] });
    assertEquals([...few.keys()], ["tensor 2", "tensor 7", "tensor 1503"]);
    assert(Buffer.compare(await few.get("tensor 1503")!.read(Uint8Array), data.subarray(-70_000)) === 0);
    await writeSafetensors(tensors, `${folder}/b.safetensors`);
    using again = await readSafetensors(`${folder}/b.safetensors`, { pool, names: ["tensor 1500"] });
    const large = data.subarray(end - 70_000 - 17 * 2 ** 20 - 3 - lengths[1500]!).subarray(0, lengths[1500]);
    assert(Buffer.compare(await again.get("tensor 1500")!.read(Uint8Array), large) === 0);
  });
});

testOnEachDriver("a model in several files is read by its index", async (cuda) => {
  await inFolder(async (folder) => {
    using pool = cuda.device(0).createPool();
    const tensor = (begin: number) => ({ dtype: "U8", shape: [2], data_offsets: [begin, begin + 2] });
    writeFileSync(`${folder}/1.safetensors`, fileOf({ a: tensor(0), b: tensor(2) }, Uint8Array.of(1, 2, 3, 4)));
    const metadata = { __metadata__: { format: "pt" } };
    writeFileSync(
      `${folder}/2.safetensors`,
      fileOf({ ...metadata, a: tensor(0), c: tensor(2) }, Uint8Array.of(9, 9, 5, 6)),
    );
    const index = `${folder}/model.safetensors.index.json`;
    const write = (map: unknown) => writeFileSync(index, JSON.stringify({ metadata: {}, weight_map: map }));
    write({ a: "1.safetensors", b: "1.safetensors", c: "2.safetensors" });
    using tensors = await readSafetensors(index, { pool });
    assertEquals([[...tensors.keys()], [...tensors.metadata]], [["a", "b", "c"], [["format", "pt"]]]);
    assertEquals(await tensors.get("a")!.read(Uint8Array), Uint8Array.of(1, 2));
    assertEquals(await tensors.get("c")!.read(Uint8Array), Uint8Array.of(5, 6));
    assertEquals(tensors.buffer.byteLength, 514);
    const refused = async (map: unknown, message: string) => {
      write(map);
      await assertRejects(() => readSafetensors(index, { pool }), Error, message);
    };
    await refused(
      { d: "2.safetensors" },
      `Cannot read "${folder}/2.safetensors": it has no tensor "d", which the index`,
    );
    await refused({ d: "3.safetensors" }, "ENOENT");
    for (const file of ["../1.safetensors", "/etc/a.safetensors", "a\\b.safetensors", "passwd", ""]) {
      await refused({ d: file }, `as the file of "d", which is not one beside the index`);
    }
    await refused({ d: 5 }, 'its weight_map has 5 as the file of "d"');
    await refused([], `Cannot read "${index}": it is not the index of a model: it has no object weight_map`);
    writeFileSync(index, "{");
    await assertRejects(() => openSafetensors(index), Error, "it is not JSON");
  });
});

testOnEachDriver("what fails leaves neither memory nor files behind", async (cuda) => {
  await inFolder(async (folder) => {
    using pool = cuda.device(0).createPool();
    using array = pool.allocateArray(new Float32Array(2 ** 20));
    const used = pool.usage().used;
    const [path, large] = [`${folder}/a.safetensors`, `${folder}/large.safetensors`];
    writeFileSync(path, "version https://git-lfs.github.com/spec/v1\n");
    await writeSafetensors({ array }, large);
    await assertRejects(() => readSafetensors(path, { pool }), Error, "fetch the file itself with git lfs pull");
    await assertRejects(() => readSafetensors(large, { pool, names: ["arry"] }), RangeError, 'did you mean "array"?');
    await assertRejects(() => readSafetensors(large, { pool, names: "array" }), TypeError, 'give ["array"]');
    await assertRejects(() => readSafetensors(large, {}), TypeError, "give { pool }, or { device }");
    const stop = new AbortController();
    const onProgress = () => stop.abort();
    stop.abort();
    await assertRejects(
      () => readSafetensors(large, { pool, signal: stop.signal, onProgress }),
      DOMException,
      "aborted",
    );
    const fail = () => {
      throw new Error("Cannot go on");
    };
    await assertRejects(() => readSafetensors(large, { pool, onProgress: fail }), Error, "Cannot go on");
    await assertRejects(() => writeSafetensors({ array }, path, { onProgress: fail }), Error, "Cannot go on");
    await assertRejects(
      () => writeSafetensors({ __metadata__: array }, path),
      TypeError,
      "Cannot write a tensor with the",
    );
    using wide = pool.allocateArray(Float64Array, { shape: [1], dtype: "complex128" });
    await assertRejects(() => writeSafetensors({ wide }, path), TypeError, "files have no elements of type complex128");
    await assertRejects(
      () => writeSafetensors({ array }, path, { metadata: { step: 1 } as never }),
      TypeError,
      '"step"',
    );
    await assertRejects(() => writeSafetensors({ array: pool } as never, path), TypeError, "give a DeviceArray");
    mkdirSync(`${folder}/folder`);
    await assertRejects(() => writeSafetensors({ array }, `${folder}/folder`), Error);
    {
      // It is cut after it was opened.
      await using file = await openSafetensors(large);
      using memory = pool.allocate(file.byteLength);
      await assertRejects(() => file.load(array.subarray(0, 2)), RangeError, "of memory: its tensors need 4194304");
      truncateSync(large, 1000);
      await assertRejects(() => file.load(memory), Error, "it had 4194");
      await file[Symbol.asyncDispose]();
      await assertRejects(() => file.load(memory), ReferenceError, "it was closed");
    }
    wide.free();
    assertEquals(pool.usage().used, used);
    assertEquals(readFileSync(path, "utf8").slice(0, 8), "version ");
    assertEquals(readdirSync(folder).sort(), ["a.safetensors", "folder", "large.safetensors"]);
  });
});

testOnEachDriver("a file with bytes changed is read or refused, and nothing stays allocated", async (cuda) => {
  using pool = cuda.device(0).createPool();
  const header = { __metadata__: { a: "b" }, x: { dtype: "U8", shape: [3], data_offsets: [0, 3] } };
  const whole = fileOf({ ...header, "y": { dtype: "BF16", shape: [2, 2], data_offsets: [3, 11] } }, new Uint8Array(11));
  let random = 7;
  const next = (below: number) => (random = Math.imul(random, 48271) >>> 0) % below;
  let readable = 0;
  for (let round = 0; round < 400; round++) {
    const changed = Uint8Array.from(whole);
    // Mostly to bytes that headers have.
    const to = next(2) === 0 ? next(256) : '0123456789{}[]":,xy'.charCodeAt(next(19));
    changed[next(changed.length)] = to;
    try {
      using tensors = await readSafetensors(changed, { pool });
      readable += tensors.size > 0 ? 1 : 0;
    } catch (error) {
      const { message } = error as Error;
      assert(
        error instanceof Error && message.startsWith("Cannot read the bytes: it is not a safetensors file"),
        message,
      );
    }
  }
  assert(readable > 20 && readable < 380, `${readable} were readable`);
  assertEquals(pool.usage().used, 0);
});
