import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { undefinedReferences } from "../../ffi/link_images.ts";
import { cubinDefinitions, cubinReferences } from "../../src/ptx/image_kind.ts";

interface Symbol {
  readonly name: string;
  readonly binding?: "local" | "global" | "weak";
  readonly type?: number;
  readonly other?: number;
  readonly section?: number;
}

/** A cubin of nothing but a table of symbols. */
function cubinOf(symbols: readonly Symbol[]): Uint8Array {
  const names = new TextEncoder().encode(["", ...symbols.map(({ name }) => name), ""].join("\0"));
  const [symbolsAt, symbolBytes] = [64, 24];
  const namesAt = symbolsAt + symbolBytes * symbols.length;
  const sectionsAt = namesAt + names.length;
  const cubin = new Uint8Array(sectionsAt + 3 * 64);
  const view = new DataView(cubin.buffer);
  cubin.set([0x7f, 0x45, 0x4c, 0x46, 2, 1]);
  // EM_CUDA
  view.setUint16(18, 190, true);
  view.setBigUint64(40, BigInt(sectionsAt), true);
  view.setUint16(58, 64, true);
  view.setUint16(60, 3, true);
  cubin.set(names, namesAt);
  let nameAt = 1;
  symbols.forEach(({ name, binding = "global", type = 2, other = 0, section = 0 }, index) => {
    const at = symbolsAt + index * symbolBytes;
    view.setUint32(at, nameAt, true);
    view.setUint8(at + 4, ["local", "global", "weak"].indexOf(binding) << 4 | type);
    view.setUint8(at + 5, other);
    view.setUint16(at + 6, section, true);
    nameAt += name.length + 1;
  });
  const section = (index: number, type: number, [offset, size]: [number, number], link = 0) => {
    const at = sectionsAt + 64 * index;
    view.setUint32(at + 4, type, true);
    view.setBigUint64(at + 24, BigInt(offset), true);
    view.setBigUint64(at + 32, BigInt(size), true);
    view.setUint32(at + 40, link, true);
  };
  section(1, 2, [symbolsAt, symbolBytes * symbols.length], 2);
  section(2, 3, [namesAt, names.length]);
  return cubin;
}

const variable = 13;
const cubin = cubinOf([
  { name: "k", section: 7 },
  { name: "own", binding: "local", section: 7 },
  { name: "w", binding: "weak" },
  { name: "twice" },
  { name: "table", type: variable, other: 0x20 },
  { name: "dynamic", type: variable, other: 0x40 },
  { name: "vprintf" },
]);

test("what a cubin uses and does not define is read from its symbols", () => {
  assertEquals(cubinReferences(cubin), ["twice", "table", "vprintf"]);
  assertEquals(cubinDefinitions(cubin), ["k"]);
  for (let length = 0; length < cubin.length; length++) cubinReferences(cubin.subarray(0, length));
});

test("a linked cubin that lacks definitions is refused with their names and the images that use them", () => {
  const uses = { name: "uses.ptx", image: ".version 8.0\n.target sm_90\n.extern .func twice(); .extern .u32 tables;" };
  const message = "cuLinkComplete failed: cudaErrorInvalidSource: ";
  assertEquals(
    undefinedReferences(cubin, [uses])!.message,
    `${message}Undefined reference to 'twice' in 'uses.ptx'; Undefined reference to 'table'`,
  );
  assertEquals(
    undefinedReferences(cubin, [{ name: "a.cubin", image: cubin }])!.message,
    `${message}Undefined reference to 'twice' in 'a.cubin'; Undefined reference to 'table' in 'a.cubin'`,
  );
  const complete = cubinOf([{ name: "k", section: 7 }, { name: "malloc" }, { name: "dynamic", other: 0x40 }]);
  assertEquals(undefinedReferences(complete, [uses]), undefined);
});
