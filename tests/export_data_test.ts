import { assertEquals, assertNotEquals } from "@std/assert";
import { test } from "node:test";
import { exportDataByteLength, exportDataKey, ExportDataMap } from "../src/export_data.ts";

function dataOf(...words: readonly number[]): Uint8Array {
  const data = new Int32Array(exportDataByteLength / Int32Array.BYTES_PER_ELEMENT);
  data.set(words);
  return new Uint8Array(data.buffer);
}

/** Three data that differ in two words, and whose hashes are the same. */
function collidingData(): readonly [Uint8Array, Uint8Array, Uint8Array] {
  const afterFirstWord = (word: number) => Math.imul(word, 0x01000193);
  const data = [1, 2, 3].map((word) => dataOf(word, afterFirstWord(word) ^ 0x1234));
  return data as unknown as readonly [Uint8Array, Uint8Array, Uint8Array];
}

test("export data are found by each of their bytes", () => {
  const map = new ExportDataMap<number>();
  const data = new Uint8Array(exportDataByteLength).map((_, index) => index);
  map.add(exportDataKey(data), 7);
  assertEquals(map.get(exportDataKey(data.slice())), 7);
  for (const index of data.keys()) {
    const other = data.slice();
    other[index]! ^= 0x80;
    assertEquals(map.get(exportDataKey(other)), undefined, `byte ${index}`);
  }
});

test("a key does not change with the data that it was made of, wherever they lie", () => {
  const memory = new Uint8Array(exportDataByteLength + 3).fill(9);
  const data = memory.subarray(3);
  const key = exportDataKey(data);
  data.fill(1);
  assertEquals(key, exportDataKey(new Uint8Array(exportDataByteLength).fill(9)));
  assertNotEquals(key, exportDataKey(data));
});

test("data whose hashes are the same are told apart, and any of them can go first", () => {
  const keys = collidingData().map(exportDataKey);
  assertEquals(new Set(keys.map(({ hash }) => hash)).size, 1);
  for (const order of [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]) {
    const map = new ExportDataMap<number>();
    for (const [index, key] of keys.entries()) map.add(key, index);
    const left = new Set(keys.keys());
    for (const gone of order) {
      map.delete(keys[gone]!);
      left.delete(gone);
      const found = keys.map((key) => map.get(key));
      assertEquals(found, [...keys.keys()].map((index) => left.has(index) ? index : undefined), `order ${order}`);
    }
    map.delete(keys[0]!);
    map.add(keys[0]!, 8);
    assertEquals(map.get(keys[0]!), 8);
  }
});
