import { assertEquals, assertRejects } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { DeviceArray } from "../../src/memory/device_array.ts";
import { open } from "../../src/open.ts";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../src/sharing/importer/importer.ts";
import type { TypedArray, TypedArrayConstructor } from "../../src/support/validation.ts";
import { startCommand } from "../support/child_process.ts";
import { test } from "../support/test.ts";

const noPython = spawnSync("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]).status !== 0 &&
  "there is no python3, or it is older than 3.10";
const fileAt = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** The element types that both languages know, each with the typed array that holds the elements. */
const types: Readonly<Record<string, TypedArrayConstructor<TypedArray>>> = {
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float16: Float16Array,
  float32: Float32Array,
  float64: Float64Array,
};
/** Those of which only the bits can be seen in a typed array, which the caller names. */
const otherTypes: Readonly<Record<string, TypedArrayConstructor<TypedArray>>> = {
  bool: Uint8Array,
  complex64: Float32Array,
  complex128: Float64Array,
  bfloat16: Uint16Array,
  float8_e3m4: Uint8Array,
  float8_e4m3: Uint8Array,
  float8_e4m3b11fnuz: Uint8Array,
  float8_e4m3fn: Uint8Array,
  float8_e4m3fnuz: Uint8Array,
  float8_e5m2: Uint8Array,
  float8_e5m2fnuz: Uint8Array,
  float8_e8m0fnu: Uint8Array,
};
const shape = [2, 3];

function countingBytes(byteLength: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length: byteLength }, (_, i) => i);
}

async function assertIs(
  array: DeviceArray<TypedArray>,
  expected: { dtype: string; type: TypedArrayConstructor<TypedArray>; shape: readonly number[] },
): Promise<void> {
  assertEquals([array.dtype, array.type, array.shape], [expected.dtype, expected.type, expected.shape]);
  assertEquals(await array.read(Uint8Array), countingBytes(array.byteLength), expected.dtype);
}

test("TypeScript and Python exchange arrays with their element types and shapes", { skip: noPython }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "poolpass-arrays-"));
  const [own, other] = [join(folder, "typescript"), join(folder, "python")];
  try {
    using cuda = open({ driver: "software" });
    using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
    await using exporter = Exporter.listen(own);
    using arrays = new DisposableStack();
    const byteLengths = new Map<string, number>();
    for (const [dtype, type] of Object.entries({ ...types, ...otherTypes })) {
      const array = arrays.use(pool.allocateArray(type, { shape, dtype }));
      array.as(Uint8Array).copyFrom(countingBytes(array.byteLength));
      exporter.offer(dtype, array);
      byteLengths.set(dtype, array.byteLength);
    }
    const pairs = arrays.use(pool.allocateArray(Uint8Array, { shape: [2, 6], dtype: "float4_e2m1fn" }));
    pairs.as(Uint8Array).copyFrom(countingBytes(pairs.byteLength));
    exporter.offer("pairs", pairs);
    exporter.offer("list", arrays.use(pool.allocateArray(new Float32Array([1, 2, 3]))));
    const end = arrays.use(pool.allocate(1));
    end.fill(7);
    exporter.offer("end", end);

    const env = { PYTHONPATH: fileAt("../python"), PYTHONDONTWRITEBYTECODE: "1", POOLPASS_DRIVER: "software" };
    await using child = startCommand(["python3", fileAt("children/sharing/arrays.py"), other, own], { env });
    assertEquals(await child.nextLine(), "ready");
    await using importer = await Importer.connect(cuda, other);
    for (const [dtype, type] of Object.entries(types)) {
      using array = await (await importer.offer(dtype)).mapArray();
      await assertIs(array, { dtype, type, shape });
    }
    for (const [dtype, type] of Object.entries(otherTypes)) {
      const offer = await importer.offer(dtype);
      await assertRejects(() => offer.mapArray(), TypeError, `no typed array has elements of its dtype, "${dtype}"`);
      using array = await offer.mapArray(type);
      await assertIs(array, { dtype, type, shape });
    }
    {
      using array = await (await importer.offer("scalar")).mapArray();
      await assertIs(array, { dtype: "float32", type: Float32Array, shape: [] });
    }
    {
      // What Python counts in pairs.
      using array = await (await importer.offer("float4_e2m1fn_x2")).mapArray(Uint8Array);
      await assertIs(array, { dtype: "float4_e2m1fn", type: Uint8Array, shape: [2, 6] });
    }

    for (const [dtype, byteLength] of byteLengths) {
      assertEquals(JSON.parse((await child.nextLine())!), [dtype, dtype, shape, countingBytes(byteLength).toHex()]);
    }
    assertEquals(JSON.parse((await child.nextLine())!), [
      "pairs",
      "float4_e2m1fn_x2",
      shape,
      countingBytes(pairs.byteLength).toHex(),
    ]);
    const list = new Uint8Array(new Float32Array([1, 2, 3]).buffer).toHex();
    assertEquals(JSON.parse((await child.nextLine())!), ["list", "float32", [3], list]);
    assertEquals(JSON.parse((await child.nextLine())!), ["end", "uint8", [1], "07"]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
