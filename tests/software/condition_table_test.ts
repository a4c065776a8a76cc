import { assertEquals, assertNotEquals } from "@std/assert";
import { test } from "node:test";
import { ConditionTable, conditionTableBytes } from "../../src/software/memory/condition_table.ts";

const pages = conditionTableBytes / 65536;

/** A table at an offset, and another thread's table at the same offset. */
function tables(): { readonly own: ConditionTable; readonly others: ConditionTable } {
  const memory = new WebAssembly.Memory({ initial: pages + 1, maximum: pages + 1, shared: true });
  return { own: new ConditionTable(memory, 65536), others: new ConditionTable(memory, 65536) };
}

test("a table of another thread finds values by the numbers that kernels pass", () => {
  const { own, others } = tables();
  const handles = [0x10n, 0x20n, 0x30n].map((serial, index) => own.add(serial, index)!);
  assertEquals(handles.map((handle) => others.get(handle)), [0, 1, 2]);
  // Kernels pass handles as signed numbers, and values too.
  others.set(BigInt.asIntN(64, handles[1]!), -1);
  assertEquals(handles.map((handle) => own.get(handle)), [0, 2 ** 32 - 1, 2]);
});

test("numbers that name no value set none", () => {
  const { own, others } = tables();
  const [first, second] = [own.add(0x10n, 1)!, own.add(0x20n, 2)!];
  own.delete(first);
  const third = own.add(0x30n, 3)!;
  assertNotEquals(third, first);
  for (const handle of [0n, -1n, 1n << 63n, first, second + 1n, second + (1n << 32n), second + (1n << 48n)]) {
    others.set(handle, 7);
    assertEquals(others.get(handle), undefined);
  }
  assertEquals([own.get(second), own.get(third)], [2, 3]);
});

test("a full table takes a value again when one is deleted", () => {
  const { own } = tables();
  let serial = 0x10n;
  let last = 0n;
  for (let handle = own.add(serial, 1); handle !== undefined; handle = own.add(serial, 1)) {
    last = handle;
    serial += 0x10n;
  }
  assertEquals(own.add(serial, 2), undefined);
  own.delete(last);
  const handle = own.add(serial, 2)!;
  assertEquals([own.get(handle), own.get(last)], [2, undefined]);
});
