import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { exportDataByteLength } from "../../src/driver.ts";
import { type ExportDataEntry, ExportDataMap } from "../../src/memory/handles/export_data_map.ts";

function dataOf(...words: readonly number[]): Uint8Array {
  const data = new Int32Array(exportDataByteLength / Int32Array.BYTES_PER_ELEMENT);
  data.set(words);
  return new Uint8Array(data.buffer);
}

/** Export data that differ in two words and have equal hashes: both words go into the same part of the hash. */
function collidingData(count: number): readonly Uint8Array[] {
  const afterFirstWord = (word: number) => Math.imul(word, 0x01000193);
  return Array.from({ length: count }, (_, word) => dataOf(word, 0, 0, 0, afterFirstWord(word) ^ 0x1234));
}

function add<V>(map: ExportDataMap<V>, data: Uint8Array, value: V): ExportDataEntry<V> {
  assertEquals(map.get(data), undefined);
  return map.addLatest(value);
}

test("export data are compared by all their bytes", () => {
  const map = new ExportDataMap<number>();
  const data = new Uint8Array(exportDataByteLength).map((_, index) => index);
  add(map, data, 7);
  assertEquals(map.get(data.slice()), 7);
  for (const index of data.keys()) {
    const other = data.slice();
    other[index]! ^= 0x80;
    assertEquals(map.get(other), undefined, `byte ${index}`);
  }
});

test("the map copies the export data that it is given", () => {
  const map = new ExportDataMap<number>();
  const memory = new Uint8Array(exportDataByteLength + 3).fill(9);
  const data = memory.subarray(3);
  add(map, data, 7);
  data.fill(1);
  assertEquals(map.get(new Uint8Array(exportDataByteLength).fill(9)), 7);
  assertEquals(map.get(data), undefined);
});

test("export data with equal hashes are distinguished, and can be removed in any order", () => {
  const data = collidingData(3);
  for (const order of [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]) {
    const map = new ExportDataMap<number>();
    const entries = data.map((each, index) => add(map, each, index));
    assertEquals(new Set(entries.map(({ hash }) => hash)).size, 1);
    const left = new Set(data.keys());
    for (const gone of order) {
      map.delete(entries[gone]!);
      left.delete(gone);
      const found = data.map((each) => map.get(each));
      assertEquals(found, [...data.keys()].map((index) => left.has(index) ? index : undefined), `order ${order}`);
    }
    add(map, data[0]!, 8);
    assertEquals(map.get(data[0]!), 8);
  }
});

test("a map finds its entries while it grows and entries are added and removed", () => {
  const distinct = Array.from({ length: 500 }, (_, index) => dataOf(0, 0, 0, 0, 0, 0, 0, index));
  const data = [...collidingData(100), ...distinct];
  const map = new ExportDataMap<number>();
  const entries = new Map<number, ExportDataEntry<number>>();
  let random = 1;
  for (let step = 0; step < 20_000; step++) {
    random = Math.imul(random, 1664525) + 1013904223 | 0;
    const index = (random >>> 8) % data.length;
    const entry = entries.get(index);
    assertEquals(map.get(data[index]!), entry === undefined ? undefined : index);
    if (entry === undefined) {
      entries.set(index, map.addLatest(index));
    } else {
      map.delete(entry);
      entries.delete(index);
    }
  }
  for (const [index, each] of data.entries()) assertEquals(map.get(each), entries.has(index) ? index : undefined);
});
