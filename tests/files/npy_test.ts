import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type { DeviceArray, TypedArray, TypedArrayConstructor } from "../../mod.ts";
import { readNpy, readNpz, writeNpy, writeNpz } from "../../npy.ts";
import { npyHeaderRange, parseNpyHeader } from "../../src/files/npy_header.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";
import { test } from "../support/test.ts";

/** A .npy file of version 1, 2 or 3. */
function npy(header: string, data: Uint8Array = new Uint8Array(), version = 1): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(header);
  const length = version === 1 ? [text.length & 255, text.length >> 8] : [text.length & 255, text.length >> 8, 0, 0];
  return Uint8Array.from([0x93, ...new TextEncoder().encode("NUMPY"), version, 0, ...length, ...text, ...data]);
}

function dictionary(descr: string, shape: string, order = "False"): string {
  return `{'descr': '${descr}', 'fortran_order': ${order}, 'shape': ${shape}, }          \n`;
}

function bytesOf(array: TypedArray): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** As `assertEquals`, which takes seconds for millions of numbers. */
function assertSame(found: TypedArray, expected: TypedArray): void {
  assert(Buffer.compare(bytesOf(found), bytesOf(expected)) === 0, "The bytes are the same");
}

/** Each dtype that has a form in .npy files, and the typed array for it. */
const dtypes: readonly (readonly [dtype: string, type: TypedArrayConstructor<TypedArray>, needsDtype?: boolean])[] = [
  ["bool", Uint8Array],
  ["int8", Int8Array],
  ["uint8", Uint8Array],
  ["int16", Int16Array],
  ["uint16", Uint16Array],
  ["int32", Int32Array],
  ["uint32", Uint32Array],
  ["int64", BigInt64Array],
  ["uint64", BigUint64Array],
  ["float16", Float16Array],
  ["float32", Float32Array],
  ["float64", Float64Array],
  ["complex64", Float32Array],
  ["complex128", Float64Array],
  ["bfloat16", Uint16Array],
  ["float8_e4m3fn", Uint8Array, true],
  ["float8_e5m2", Uint8Array, true],
  ["float8_e8m0fnu", Uint8Array, true],
  ["float8_e4m3fnuz", Uint8Array, true],
  ["float8_e5m2fnuz", Uint8Array, true],
  ["float8_e3m4", Uint8Array, true],
  ["float8_e4m3", Uint8Array, true],
  ["float8_e4m3b11fnuz", Uint8Array, true],
];

testOnEachDriver("arrays of each dtype are written and read again, in .npy and .npz files", async (cuda) => {
  await inFolder(async (folder) => {
    using pool = cuda.device(0).createPool();
    using allocator = pool.createCachingAllocator();
    using stream = cuda.device(0).createStream();
    using arrays = new DisposableStack();
    const written: Record<string, DeviceArray<TypedArray>> = {};
    for (const [dtype, type, needsDtype] of dtypes) {
      const array = arrays.use(allocator.allocateArray(type, { shape: [2, 3, 4], dtype }, stream));
      const bytes = Uint8Array.from({ length: array.byteLength }, (_, index) => index * 7 % 251);
      array.as(Uint8Array).copyFrom(bytes);
      written[dtype] = array;
      await writeNpy(array, `${folder}/${dtype}.npy`);
      const options = { pool: allocator, stream, ...needsDtype ? { dtype } : {} };
      for (const source of [`${folder}/${dtype}.npy`, pathToFileURL(`${folder}/${dtype}.npy`)]) {
        using read = await readNpy(source, options);
        assertEquals([read.dtype, read.type, [...read.shape], read.stream], [dtype, type, [2, 3, 4], stream]);
        assertEquals(bytesOf(await read.toTypedArray()), bytes);
      }
    }
    for (const compressed of [false, true]) {
      const known = Object.fromEntries(Object.entries(written).filter(([dtype]) => !dtype.startsWith("float8")));
      await writeNpz(known, `${folder}/all.npz`, { compressed });
      using read = await readNpz(`${folder}/all.npz`, { pool });
      assertEquals(Object.keys(read), Object.keys(known));
      for (const [dtype, array] of Object.entries(read)) {
        assertEquals([array.dtype, [...array.shape]], [dtype, [2, 3, 4]]);
        assertEquals(await array.toTypedArray(), await known[dtype]!.toTypedArray());
      }
    }
    assertEquals(readdirSync(folder).filter((name) => name.endsWith(".tmp")), []);
  });
});

testOnEachDriver("a large array is read and written in pieces, with its progress", async (cuda) => {
  await inFolder(async (folder) => {
    using pool = cuda.device(0).createPool();
    const numbers = new Uint32Array(2 * 2 ** 20 + 3).map((_, index) => Math.imul(index, 2654435761));
    using array = pool.allocateArray(numbers);
    const progress: number[][] = [];
    const onProgress = ({ loaded, total }: { loaded: number; total: number }) => progress.push([loaded, total]);
    await writeNpy(array, `${folder}/a.npy`, { onProgress });
    using read = await readNpy(`${folder}/a.npy`, { device: cuda.device(0), type: Uint32Array, onProgress });
    assertSame(await read.toTypedArray(), numbers);
    const { byteLength } = array;
    const half = progress.length / 2;
    assert(half > 1 && half < 9, `${half} pieces`);
    assertEquals([progress[half - 1], progress.at(-1)], [[byteLength, byteLength], [byteLength, byteLength]]);
    const bytes = readFileSync(`${folder}/a.npy`);
    // Bytes are read as files are.
    using again = await readNpy(new Blob([bytes]), { pool });
    assertSame(await again.toTypedArray(), numbers);
    // A big-endian file of the same numbers.
    const swapped = npy(dictionary(">u4", `(${numbers.length},)`), bytes.subarray(128).swap32());
    using converted = await readNpy(swapped, { pool });
    assertSame(await converted.toTypedArray(), numbers);
  });
});

testOnEachDriver("Fortran order, big-endian numbers, all versions and old headers are read", async (cuda) => {
  using pool = cuda.device(0).createPool();
  const read = async (file: Uint8Array<ArrayBuffer>) => {
    using array = await readNpy(file.buffer, { pool });
    return [array.dtype, [...array.shape], [...await array.toTypedArray()]];
  };
  const numbers = (array: TypedArray) => bytesOf(array);
  // In memory, the first index is the fastest.
  const columns = new Int16Array([
    0,
    12,
    4,
    16,
    8,
    20,
    1,
    13,
    5,
    17,
    9,
    21,
    2,
    14,
    6,
    18,
    10,
    22,
    3,
    15,
    7,
    19,
    11,
    23,
  ]);
  const rows = Array.from({ length: 24 }, (_, index) => index);
  assertEquals(await read(npy(dictionary("<i2", "(2, 3, 4)", "True"), numbers(columns))), ["int16", [2, 3, 4], rows]);
  const complex = new Float64Array([1, -1, 2, -2, 3, -3, 4, -4]);
  assertEquals(
    await read(npy(dictionary("<c16", "(2, 2)", "True"), numbers(complex))),
    ["complex128", [2, 2], [1, -1, 3, -3, 2, -2, 4, -4]],
  );
  assertEquals(await read(npy(dictionary(">i2", "(2L,)"), Uint8Array.of(1, 2, 3, 4))), ["int16", [2], [0x102, 0x304]]);
  assertEquals(
    await read(npy(dictionary(">c8", "(1,)"), Uint8Array.of(0x3f, 0x80, 0, 0, 0xbf, 0x80, 0, 0))),
    ["complex64", [1], [1, -1]],
  );
  assertEquals(await read(npy(dictionary(">f8", "()"), Uint8Array.of(0x3f, 0xf0, 0, 0, 0, 0, 0, 0))), [
    "float64",
    [],
    [1],
  ]);
  for (const version of [1, 2, 3]) {
    assertEquals(await read(npy(dictionary("|u1", "(3,)"), Uint8Array.of(1, 2, 3), version)), ["uint8", [3], [
      1,
      2,
      3,
    ]]);
  }
  assertEquals(await read(npy('{"shape":(2,0),"fortran_order":True,"descr":"?"}')), ["bool", [2, 0], []]);
});

testOnEachDriver("an .npz file has the arrays of the names that are wanted", async (cuda) => {
  await inFolder(async (folder) => {
    using pool = cuda.device(0).createPool();
    using x = pool.allocateArray(new Float32Array([1, 2]));
    using y = pool.allocateArray(new Int8Array([3]));
    const names = new Map<string, DeviceArray<TypedArray>>([["__proto__", x], ["a/ü", y]]);
    await writeNpz(names, `${folder}/a.npz`);
    using both = await readNpz(readFileSync(`${folder}/a.npz`), { pool });
    assertEquals(Object.keys(both), ["__proto__", "a/ü"]);
    using one = await readNpz(`${folder}/a.npz`, { pool, names: ["a/ü"] });
    assertEquals([Object.keys(one), await one["a/ü"]!.toTypedArray()], [["a/ü"], new Int8Array([3])]);
    await assertRejects(
      () => readNpz(`${folder}/a.npz`, { pool, names: ["a/u"] }),
      RangeError,
      "no such array: there are __proto__, a/ü",
    );
  });
});

testOnEachDriver("what fails leaves neither memory nor files behind", async (cuda) => {
  await inFolder(async (folder) => {
    using pool = cuda.device(0).createPool();
    using array = pool.allocateArray(new Float32Array(2 ** 19).fill(1));
    const used = pool.usage().used;
    writeFileSync(`${folder}/a.npy`, "old");
    const stop = new AbortController();
    const stopping = { signal: stop.signal, onProgress: () => stop.abort() };
    await writeNpy(array, `${folder}/b.npy`);
    await assertRejects(() => writeNpy(array, `${folder}/none/a.npy`), Error, "ENOENT");
    const written = () => {
      throw new Error("Cannot go on");
    };
    await assertRejects(() => writeNpy(array, `${folder}/a.npy`, { onProgress: written }), Error, "Cannot go on");
    await assertRejects(() => writeNpz({ array, again: array }, `${folder}/a.npy`, stopping), DOMException, "aborted");
    await assertRejects(() => readNpy(`${folder}/b.npy`, { pool, signal: stop.signal }), DOMException, "aborted");
    await assertRejects(() => readNpy(`${folder}/b.npy`, { pool, onProgress: written }), Error, "Cannot go on");
    await assertRejects(() => readNpy(`${folder}/a.npy`, { pool }), Error, `Cannot read "${folder}/a.npy": it is not`);
    await assertRejects(() => readNpy(folder, { pool }), TypeError, "it is not a regular file");
    await assertRejects(() => readNpy(`${folder}/b.npy`, {}), TypeError, "give { pool }, or { device }");
    await assertRejects(() => readNpy(5 as never, { pool }), TypeError, "give a path, a file: URL, a Uint8Array");
    await assertRejects(
      () => readNpy(new URL("https://a.b/c.npy"), { pool }),
      TypeError,
      "await (await fetch(url)).bytes()",
    );
    await assertRejects(
      () => writeNpy(new Float32Array(1) as never, `${folder}/c.npy`),
      TypeError,
      "give a DeviceArray",
    );
    assertEquals(pool.usage().used, used);
    assertEquals(readFileSync(`${folder}/a.npy`, "utf8"), "old");
    assertEquals(readdirSync(folder).sort(), ["a.npy", "b.npy"]);
  });
});

test("the entry points for files export these values", async () => {
  assertEquals(Object.keys(await import("../../npy.ts")).sort(), ["readNpy", "readNpz", "writeNpy", "writeNpz"]);
  assertEquals(Object.keys(await import("../../safetensors.ts")).sort(), [
    "DeviceTensors",
    "SafetensorsFile",
    "openSafetensors",
    "readSafetensors",
    "writeSafetensors",
  ]);
});

for (
  const [what, file, reason] of [
    ["nothing", new Uint8Array(), "it does not begin with the bytes \\x93NUMPY"],
    ["a pointer", new TextEncoder().encode("version https://git-lfs"), "fetch the file itself with git lfs pull"],
    ["a zip archive", new TextEncoder().encode("PK\u0003\u0004abcdefgh"), "readNpz reads those of numpy.savez"],
    ["a version of the future", npy("{}", undefined, 4), "it has version 4.0 of the format"],
    ["half a prefix", npy("").subarray(0, 9), "it has 9 bytes, and ends in its header"],
    ["half a header", npy("{'descr': ").with(8, 200), "its header would end at byte 210, and it has 20 bytes"],
    [
      "a huge header",
      npy("{}", undefined, 2).with(11, 1),
      "its header would have 16777218 bytes, and may have 1048576",
    ],
    ["no dictionary", npy("[1]"), 'its header has "[1]" where { should be'],
    ["code", npy("{'descr': open('/etc')}"), `its header has "open('/etc')" where a value should be`],
    ["no end", npy("{'descr': '<f4"), "its header has a string that does not end"],
    ["something behind it", npy(`${dictionary("<f4", "()").trim()} 1`), 'its header has "1" after its dictionary'],
    ["a key twice", npy("{'descr': '<f4', 'descr': '<f4'}"), 'its header has the key "descr" twice'],
    ["another key", npy("{'descr': '<f4', 'order': 1}"), 'its header has the unknown key "order"'],
    ["no shape", npy("{'descr': '<f4', 'fortran_order': False}"), 'its header has no key "shape"'],
    ["no order", npy(dictionary("<f4", "(1,)", "2")), "its fortran_order is 2, and not True or False"],
    ["a size as shape", npy(dictionary("<f4", "3")), "its shape is 3, and not a tuple"],
    ["a negative size", npy(dictionary("<f4", "(2, -1)")), "its shape (2, -1) has -1, which is not a size"],
    ["a huge size", npy(dictionary("<f4", "(9007199254740993,)")), "which is not a size"],
    ["a huge array", npy(dictionary("<f8", "(4294967296, 4294967296)")), "has more elements than any file"],
    ["65 dimensions", npy(dictionary("<f8", `(${"1, ".repeat(65)})`)), "its shape has 65 dimensions, and may have 64"],
    ["lists in lists", npy(`{'shape': ${"(".repeat(20)}`), "its header has lists in lists"],
    ["an unknown type", npy(dictionary("<f7", "(1,)")), 'its descr is "<f7", which is not a type of NumPy'],
    ["objects", npy(dictionary("|O", "(1,)")), "are Python objects, which are pickled; loading them can run any code"],
    ["strings", npy(dictionary("<U3", "(1,)")), 'its elements, "<U3", are strings'],
    ["dates", npy(dictionary("<M8[ns]", "(1,)")), 'its elements, "<M8[ns]", are dates; save them as numbers'],
    ["raw bytes", npy(dictionary("|V3", "(1,)")), 'its elements, "|V3", are 3 bytes without a type'],
    ["long doubles", npy(dictionary("<f16", "(1,)")), "are of a type that differs between processors; save them as fl"],
    [
      "structures",
      npy("{'descr': [('x', '<f4'), ('y', '<i4', (2,))], 'fortran_order': False, 'shape': (2,), }"),
      'its elements are structures with the fields "x", "y"; save each field as an array of its own',
    ],
    [
      "no bytes",
      npy(dictionary("<f4", "(2,)")),
      "it is cut: its header is of an array of shape (2) with 8 bytes, and 0",
    ],
    ["a byte more", npy(dictionary("|u1", "()"), Uint8Array.of(1, 2)), "with 1 bytes, and 2 follow; several arrays in"],
    ["a type without a name", npy(dictionary("<V1", "(1,)"), Uint8Array.of(1)), 'such as { dtype: "float8_e4m3fn" }'],
  ] as const
) {
  test(`a .npy file with ${what} is refused`, async () => {
    const { open } = await import("../../mod.ts");
    using cuda = open({ driver: "software" });
    using pool = cuda.device(0).createPool();
    const error = await assertRejects(() => readNpy(file, { pool }), Error) as Error;
    assert(error.message.startsWith("Cannot read the bytes: "), error.message);
    assert(error.message.includes(reason), error.message);
    assertEquals(pool.usage().usedHigh, 0);
  });
}

testOnEachDriver("elements of another type than the one that is asked for are refused", async (cuda) => {
  using pool = cuda.device(0).createPool();
  const file = npy(dictionary("<f4", "(1,)"), new Uint8Array(4));
  const asked = (options: object) => readNpy(file, { pool, ...options });
  await assertRejects(
    () => asked({ type: Int32Array }),
    TypeError,
    "of type float32: give Float32Array instead of Int32",
  );
  await assertRejects(() => asked({ dtype: "int32" }), TypeError, 'its elements are of type float32, and not "int32"');
  await assertRejects(() => asked({ dtyp: "int32" }), TypeError, 'with the option "dtyp"');
  using raw = await readNpy(npy(dictionary("<V1", "(1,)"), Uint8Array.of(5)), { pool, dtype: "uint8" });
  assertEquals(await raw.toTypedArray(), Uint8Array.of(5));
});

test("a header with any byte changed is parsed or refused, in time", () => {
  const whole = npy(dictionary("<f4", "(123, 45, 6)"));
  let random = 1;
  const next = (below: number) => (random = Math.imul(random, 48271) >>> 0) % below;
  for (let round = 0; round < 5000; round++) {
    const changed = Uint8Array.from(whole);
    for (let change = next(3); change >= 0; change--) changed[next(changed.length)] = next(256);
    try {
      const { begin, byteLength, isLatin1 } = npyHeaderRange(changed.subarray(0, 12));
      const header = parseNpyHeader(changed.subarray(begin, begin + byteLength), { isLatin1 });
      assert(Number.isSafeInteger(header.byteLength) && header.byteLength >= 0);
    } catch (error) {
      assert(error instanceof Error && /^its? /.test(error.message), String(error));
    }
  }
  assertThrows(() => npyHeaderRange(new Uint8Array()), Error);
});
