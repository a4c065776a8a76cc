import { assert, assertEquals, assertThrows } from "@std/assert";
import { loadNvJitLink } from "../../ffi/nvjitlink.ts";
import { CudaError } from "../../src/support/errors.ts";
import { imageKind } from "../../src/ptx/image_kind.ts";
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
