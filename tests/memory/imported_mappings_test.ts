import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { type ImportedMapping, ImportedMappings } from "../../src/memory/handles/imported_mappings.ts";

/** Addresses that differ in either half or in both. */
const addressOf = (index: number) => BigInt(index % 8) * 2n ** 44n + BigInt(index >> 3) * 512n;

test("mappings are found by address while the table grows and mappings are added and removed", () => {
  const mappings = new ImportedMappings(() => {});
  const live = new Map<number, ImportedMapping>();
  let random = 1;
  for (let step = 0; step < 20_000; step++) {
    random = Math.imul(random, 1664525) + 1013904223 | 0;
    const index = (random >>> 8) % 600;
    const earlier = live.get(index);
    const mapping = mappings.withAddress(addressOf(index));
    if (earlier === undefined) {
      assertEquals([mapping.byteLength, mapping.bufferCount, mapping.earlierFrees], [0, 0, undefined]);
      mapping.byteLength = index + 1;
      mapping.bufferCount = 2;
      mapping.earlierFrees = new Map();
      live.set(index, mapping);
    } else {
      assert(mapping === earlier && mappings.at(mapping.index) === mapping);
      assertEquals([mapping.byteLength, mappings.addressOf(mapping)], [index + 1, addressOf(index)]);
      mappings.remove(mapping);
      live.delete(index);
    }
    assertEquals(mappings.size, live.size);
  }
  assertEquals(new Set(mappings), new Set(live.values()));
  assertEquals([...mappings].length, live.size);
});

test("a removed mapping is used again, and is then one of other memory", () => {
  const mappings = new ImportedMappings(() => {});
  const [first, second] = [1n, 2n].map((address) => mappings.withAddress(address));
  mappings.remove(first!);
  assertEquals([...mappings], [second!]);
  assert(mappings.withAddress(3n) === first);
  assertEquals([...mappings].map((each) => mappings.addressOf(each)).sort(), [2n, 3n]);
  assert(mappings.withAddress(1n) !== first);
});
