import { assert, assertEquals, assertThrows } from "@std/assert";
import { loadNvJitLink } from "../../ffi/nvjitlink.ts";
import { CudaError } from "../../src/support/errors.ts";
import { cubinDefinitions, hasLtoir, imageKind } from "../../src/ptx/image_kind.ts";
import { test } from "../support/test.ts";

const skip = loadNvJitLink() === undefined && "no libnvJitLink was found";
const header = ".version 8.0\n.target sm_90\n.address_size 64\n";
const uses = {
  name: "uses.ptx",
  image: `${header} .extern .func f(); .visible .entry k() { call f; ret; }`,
};
const defines = { name: "defines.ptx", image: new TextEncoder().encode(`${header} .visible .func f() { ret; }`) };

test("nvJitLink links PTX to a cubin, with options", { skip }, () => {
  const nvJitLink = loadNvJitLink()!;
  for (const optimizationLevel of [undefined, 0, 1, 2, 3, 4]) {
    let log = "";
    const onInfoLog = (text: string) => void (log = text);
    const options = { optimizationLevel, maxRegisters: 32, lineInfo: true, verbose: true, onInfoLog };
    assertEquals(imageKind(nvJitLink.link("sm_90", [uses, defines], options)), "cubin");
    assert(log.includes("registers"), log);
  }
  assertEquals(imageKind(nvJitLink.link("sm_90", [defines, uses], { debug: true })), "cubin");
});

test("errors of nvJitLink name the image", { skip }, () => {
  const nvJitLink = loadNvJitLink()!;
  const broken = { name: "broken.ptx", image: `${header} .visible .entry b() { frobnicate; }` };
  for (
    const [images, code, message] of [
      [[uses], "cudaErrorInvalidSource", "Undefined reference to 'f' in 'uses.ptx'"],
      [
        [defines, { ...defines, name: "again.ptx" }],
        "cudaErrorInvalidSource",
        "Multiple definition of 'f' in 'again.ptx', first defined in 'defines.ptx'",
      ],
      [[uses, broken], "cudaErrorInvalidPtx", "in broken.ptx: ptxas application ptx input, line 4"],
    ] as const
  ) assertEquals((assertThrows(() => nvJitLink.link("sm_90", images), CudaError, message) as CudaError).code, code);
  assertThrows(() => nvJitLink.link("sm_9000", [uses]), CudaError, "-arch=sm_9000");
  // A link that has failed leaves nothing behind.
  assertEquals(imageKind(nvJitLink.link("sm_90", [uses, defines])), "cubin");
});

test("nvJitLink refuses two cubins that define one name", { skip }, () => {
  const nvJitLink = loadNvJitLink()!;
  const parts = `${header} .extern .func f(); .weak .func w() { ret; } .visible .global .u32 x; .global .u32 own;`;
  const cubin = nvJitLink.link("sm_90", [defines, {
    name: "kernel.ptx",
    image: `${parts} .visible .entry k() { call f; call w; st.global.u32 [x], 1; st.global.u32 [own], 1; ret; }`,
  }]);
  assertEquals(new Set(cubinDefinitions(cubin)), new Set(["f", "k", "x"]));
  const [one, other] = ["one.cubin", "other.cubin"].map((name) => ({ name, image: cubin }));
  assertThrows(() => nvJitLink.link("sm_90", [uses]), CudaError, "Undefined reference");
  assertThrows(
    () => nvJitLink.link("sm_90", [one!, other!]),
    CudaError,
    "Multiple definition of 'k' in 'other.cubin', first defined in 'one.cubin'",
  );
  assertThrows(() => nvJitLink.link("sm_90", [defines, other!]), CudaError, "Multiple definition of 'f'");
  for (let length = 20; length < cubin.length; length += 97) cubinDefinitions(cubin.subarray(0, length));
});

test("LTO IR is found in fatbins, and in objects and libraries of the host", () => {
  // A fatbin's header of 16 bytes, and an entry's, whose payload is empty.
  const fatbin = (kind: number) => {
    const view = new DataView(new ArrayBuffer(80));
    view.setUint32(0, 0xba55ed50, true);
    view.setUint16(6, 16, true);
    view.setBigUint64(8, 64n, true);
    view.setUint16(16, kind, true);
    view.setUint32(20, 64, true);
    return new Uint8Array(view.buffer);
  };
  const object = Uint8Array.of(0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 62, 0, 0x50, 0, 0, 0);
  const library = new TextEncoder().encode("!<arch>\nPPP part.o/         ");
  const [cubin, ltoir] = [2, 8];
  for (const container of [new Uint8Array(0), object, library]) {
    for (const [kinds, expected] of [[[cubin], false], [[ltoir], true], [[cubin, ltoir], true]] as const) {
      const image = new Uint8Array([...container, ...kinds.flatMap((kind) => [...fatbin(kind)]), 0x50, 0xed]);
      // Two fatbins one after another are two only in a container.
      if (container.length > 0 || kinds.length === 1) assertEquals(hasLtoir(image), expected, `${kinds}`);
    }
  }
});
