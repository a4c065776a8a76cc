import { assertEquals } from "@std/assert";
import { reductionOperation } from "../../../src/collective_library.ts";
import { ElementReduction, elementType } from "../../../src/software/collectives/reduction.ts";
import { test } from "../../support/test.ts";
import { type PlainType, plainTypes, reduced, type Value, valuesOf } from "./plain_types.ts";

/** The bytes of pseudorandom values, with very large ones and NaN among them. */
function anyBytes(byteLength: number, seed: number): Uint8Array<ArrayBuffer> {
  let state = seed;
  return Uint8Array.from({ length: byteLength }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  });
}

function reducedBytes(type: PlainType, operation: number, ranks: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const reduction = new ElementReduction(elementType(type.number)!, operation);
  for (const bytes of ranks) reduction.add(bytes.slice());
  const result = new Uint8Array(ranks[0]!.byteLength);
  reduction.finish(result);
  return result;
}

/** Fails at the first different value, because printing a difference of long arrays takes long. */
function assertSame(actual: readonly Value[], ranks: readonly Value[][], type: PlainType, operation: number): void {
  for (const [index, value] of actual.entries()) {
    const given = ranks.map((values) => values[index]!);
    const expected = reduced(type, operation, given);
    if (!Object.is(value, expected)) assertEquals(value, expected, `${type.name} ${given.join(", ")}`);
  }
}

for (const type of plainTypes) {
  test(`reductions of ${type.name} are those of single values`, () => {
    for (const [name, operation] of Object.entries(reductionOperation)) {
      for (const size of [1, 2, 3, 7]) {
        const ranks = Array.from({ length: size }, (_, rank) => anyBytes(type.byteLength * 500, 77 * rank + size));
        const actual = valuesOf(type, reducedBytes(type, operation, ranks));
        assertEquals(actual.length, 500, name);
        assertSame(actual, ranks.map((bytes) => valuesOf(type, bytes)), type, operation);
      }
    }
  });
}

test("every pair of 8-bit floats is added, multiplied and compared as float32, and rounded", () => {
  for (const type of plainTypes.filter(({ name }) => name.startsWith("float8"))) {
    const one = Uint8Array.from({ length: 65536 }, (_, index) => index >> 8);
    const other = Uint8Array.from({ length: 65536 }, (_, index) => index & 0xff);
    for (const operation of Object.values(reductionOperation)) {
      const actual = valuesOf(type, reducedBytes(type, operation, [one, other]));
      assertSame(actual, [valuesOf(type, one), valuesOf(type, other)], type, operation);
    }
  }
});

test("a number wins against NaN, integers wrap around, and averages of integers are rounded toward zero", () => {
  const { maximum, minimum, sum, average } = reductionOperation;
  const ofFloats = (operation: number, ...ranks: number[]) => {
    const type = plainTypes.find(({ name }) => name === "float32")!;
    const given = ranks.map((value) => new Uint8Array(Float32Array.of(value).buffer));
    return valuesOf(type, reducedBytes(type, operation, given))[0];
  };
  const ofBytes = (operation: number, ...ranks: number[]) => {
    const type = plainTypes.find(({ name }) => name === "int8")!;
    const given = ranks.map((value) => new Uint8Array(Int8Array.of(value).buffer));
    return valuesOf(type, reducedBytes(type, operation, given))[0];
  };
  assertEquals([ofFloats(maximum, NaN, 1, NaN), ofFloats(minimum, 1, NaN, 2), ofFloats(maximum, NaN, NaN)], [
    1,
    1,
    NaN,
  ]);
  assertEquals([ofBytes(sum, 100, 100), ofBytes(average, -1, -2), ofBytes(average, 100, 100)], [-56n, -1n, -28n]);
});
