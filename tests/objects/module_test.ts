import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { CudaError } from "../../src/support/errors.ts";
import { testOnEachDriver } from "../support/drivers.ts";

/** Counts launches in a variable, and stores the arguments unchanged. */
const ptx = `
.version 7.0
.target sm_60
.address_size 64

.visible .global .align 4 .u32 launches = 41;
.visible .global .align 4 .f32 weights[4] = {0f3F800000, 0f40000000, 0f40400000};

.visible .entry count()
{
	.reg .b32 %r<3>;
	ld.global.u32 %r1, [launches];
	add.s32 %r2, %r1, 1;
	st.global.u32 [launches], %r2;
	ret;
}

.visible .entry store(
	.param .u64 out,
	.param .align 4 .b8 triple[12],
	.param .align 2 .b8 half[2],
	.param .b16 plain,
	.param .f64 last
)
{
	.reg .b16 %h<3>;
	.reg .f32 %f<4>;
	.reg .f64 %d<2>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [out];
	cvta.to.global.u64 %rd2, %rd1;
	ld.param.f32 %f1, [triple];
	ld.param.f32 %f2, [triple+4];
	ld.param.f32 %f3, [triple+8];
	ld.param.b16 %h1, [half];
	ld.param.b16 %h2, [plain];
	ld.param.f64 %d1, [last];
	st.global.f32 [%rd2], %f1;
	st.global.f32 [%rd2+4], %f2;
	st.global.f32 [%rd2+8], %f3;
	st.global.b16 [%rd2+12], %h1;
	st.global.b16 [%rd2+14], %h2;
	st.global.f64 [%rd2+16], %d1;
	ret;
}
`;

testOnEachDriver("a module's variables are read and written", async (cuda) => {
  const gpu = cuda.device(0);
  using module = gpu.loadModule(ptx);
  const launches = module.getGlobal("launches");
  assertEquals([launches.byteLength, launches.pool], [4, undefined]);
  assert(module.getGlobal("launches") === launches && launches.device === gpu);
  assertEquals(launches.readSync(Uint32Array), Uint32Array.of(41));
  module.kernel("count").launch({ grid: 1, block: 1 });
  assertEquals(await launches.read(Uint32Array), Uint32Array.of(42));
  launches.copyFrom(Uint32Array.of(7));
  module.kernel("count").launch({ grid: 1, block: 1 });
  assertEquals(await launches.read(Uint32Array), Uint32Array.of(8));
  assertEquals(await module.getGlobal("weights").read(Float32Array), Float32Array.of(1, 2, 3, 0));
  const error = assertThrows(() => module.getGlobal("nonesuch"), CudaError);
  assertEquals(error.code, "cudaErrorSymbolNotFound");
  assertThrows(() => launches.free(), TypeError, "it is a module's variable");
  launches[Symbol.dispose]();
  assertEquals(launches.readSync(Uint32Array), Uint32Array.of(8));
  module[Symbol.dispose]();
  assertThrows(() => launches.address, ReferenceError);
  assertThrows(() => module.getGlobal("launches"), ReferenceError, "the module: it was disposed");
});

testOnEachDriver("unloading a module ends a long read of its variable", async (cuda) => {
  const length = 2 ** 26;
  const large = `.version 7.0\n.target sm_60\n.address_size 64\n.visible .global .align 8 .b8 large[${length}];\n`;
  using module = cuda.device(0).loadModule(large);
  const reading = module.getGlobal("large").read(Uint8Array);
  module[Symbol.dispose]();
  await assertRejects(() => reading, ReferenceError, "its module was disposed");
});

testOnEachDriver("structs and half floats can be arguments", async (cuda) => {
  const gpu = cuda.device(0);
  using module = gpu.loadModule(ptx);
  const store = module.kernel("store");
  assertEquals(store.parameters, [
    "u64",
    { byteLength: 12, alignment: 4 },
    { byteLength: 2, alignment: 2 },
    "b16",
    "f64",
  ]);
  using pool = gpu.createPool();
  using out = pool.allocate(24);
  const shape = { grid: 1, block: 1 };
  store.launch(shape, out, Float32Array.of(1, 2, 3), Float16Array.of(0.5), 0x3c00, 1 / 3);
  const bytes = await out.read(Uint8Array);
  assertEquals(new Float32Array(bytes.buffer, 0, 3), Float32Array.of(1, 2, 3));
  assertEquals(new Float16Array(bytes.buffer, 12, 2), Float16Array.of(0.5, 1));
  assertEquals(new Float64Array(bytes.buffer, 16, 1), Float64Array.of(1 / 3));
  assertThrows(
    () => store.launch(shape, out, Float32Array.of(1, 2), Float16Array.of(0), 0, 0),
    Error,
    "it takes 12 bytes",
  );
  // The same image with declared types: a half is passed as a number.
  const typed = module.kernel("store", { parameters: ["u64", { byteLength: 12, alignment: 4 }, "f16", "f16", "f64"] });
  typed.launch(shape, out, Float32Array.of(1, 2, 3), 1.5, -2, 0);
  const halves = new Float16Array((await out.read(Uint8Array, { byteOffset: 12, length: 4 })).buffer);
  assertEquals(halves, Float16Array.of(1.5, -2));
});

testOnEachDriver("an image in bytes is read as PTX text if it is PTX, and otherwise refused", (cuda) => {
  const gpu = cuda.device(0);
  using module = gpu.loadModule(new TextEncoder().encode(ptx));
  assertEquals(module.kernelNames, ["count", "store"]);
  const error = assertThrows(() => gpu.loadModule(Uint8Array.of(1, 2, 3, 4)), CudaError);
  assertEquals(error.code, "cudaErrorInvalidKernelImage");
});

/** Any argument that an untyped program could pass. */
// deno-lint-ignore no-explicit-any
type Anything = any;

testOnEachDriver("parameters that are invalid, or differ from the PTX, are refused before any launch", (cuda) => {
  using module = cuda.device(0).loadModule(ptx);
  const find = (parameters: Anything, name = "store") => () => module.kernel(name, { parameters });
  const triple = { byteLength: 12, alignment: 4 };
  const refusals: [call: () => unknown, error: new () => Error, message: string][] = [
    [find(["int"]), TypeError, 'Cannot use "int" as the type of parameter 0 of store: it must be one of b8, u8, '],
    [find(["u64", "u31"]), TypeError, 'Cannot use "u31" as the type of parameter 1 of store'],
    [find(["toString"]), TypeError, 'Cannot use "toString" as the type of parameter 0 of store'],
    [find("u32"), TypeError, "Cannot use a string as the parameters of store"],
    [find([{ byteLength: 4 }]), TypeError, "Cannot use byteLength 4 and alignment undefined as the type"],
    [find([{ byteLength: -1, alignment: 3 }]), RangeError, "Cannot use -1 as the byteLength of parameter 0 of store"],
    [find([{ byteLength: 4, alignment: 3 }]), RangeError, "Cannot use 3 as the alignment of parameter 0 of store"],
    [
      find([{ byteLength: 40000, alignment: 1 }]),
      RangeError,
      "40000 bytes of parameters to store: 32764 is the maximum",
    ],
    [find(["u32"]), TypeError, "Cannot give store 1 parameters: its PTX declares 5"],
    [
      find(["u32", triple, "f16", "f16", "f64"]),
      TypeError,
      "Cannot take parameter 0 of store as u32: its PTX declares u64",
    ],
    [
      find(["f64", triple, "f16", "f16", "f64"]),
      TypeError,
      "Cannot take parameter 0 of store as f64: its PTX declares u64",
    ],
    [find(["u64", "u64", "f16", "f16", "f64"]), TypeError, "parameter 1 of store as u64: its PTX declares 12 bytes"],
    [() => module.kernel("store", null as Anything), TypeError, "Cannot find a kernel with null as its options"],
  ];
  for (const [call, error, message] of refusals) assertThrows(call, error, message);
  const given = ["b64", triple, "u16", "s16", "b64"] as const;
  assertEquals(module.kernel("store", { parameters: given }).parameters, given);
  const absent = assertThrows(find(["u32"], "nonesuch"), CudaError);
  assertEquals(absent.code, "cudaErrorSymbolNotFound");
  assert(absent.message.endsWith("; its kernels are count, store"), absent.message);
});

testOnEachDriver("strings that cannot be names find no kernel and no variable", (cuda) => {
  using module = cuda.device(0).loadModule(ptx);
  const uses: ((name: string) => unknown)[] = [
    (name) => module.kernel(name),
    (name) => module.kernel(name, { parameters: [] }),
    (name) => module.getGlobal(name),
  ];
  for (const use of uses) {
    assertThrows(() => use(5 as never), TypeError, "by 5: a name is a string");
    assertThrows(() => use("a\0b"), RangeError, "Cannot find the");
  }
});

testOnEachDriver("what is passed for an image by mistake is refused, and the error says what to pass", (cuda) => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const utf16 = new Uint8Array(Uint16Array.from(`\uFEFF${ptx}`, (character) => character.charCodeAt(0)).buffer);
  const source = '#include <cstdint>\nextern "C" __global__ void f() {}\n';
  const path =
    'Cannot load "kernels/fill.ptx" as a module: pass the text of the PTX, not a path, as in readFileSync("kern';
  const compile = "Cannot load CUDA C++ as a module: pass it to compile instead of loadModule, as in " +
    "gpu.compile(source), or compile it with nvcc -ptx, and pass the text of the PTX";
  const refusals: [image: unknown, message: string][] = [
    ["kernels/fill.ptx", path],
    [
      "fill.cu",
      'Cannot load "fill.cu" as a module: pass its text to compile, as in gpu.compile(readFileSync("fill.cu", "utf8"))',
    ],
    ["fill.cubin", 'Cannot load "fill.cubin" as a module: pass the bytes of the file, not a path'],
    [source, compile],
    [bytes(source), compile],
    ["", "Cannot load an empty image as a module: pass the text of the PTX"],
    [" \n", "Cannot load an empty image"],
    [new Uint8Array(0), "Cannot load an empty image"],
    [`\uFEFF${ptx}`, "Cannot load PTX that begins with a byte order mark: save the file as UTF-8 without it"],
    [bytes(`\uFEFF${ptx}`), "Cannot load PTX that begins with a byte order mark"],
    [utf16, "Cannot load PTX in UTF-16: save the file as UTF-8"],
    ["<!DOCTYPE html><html></html>", "Cannot load an HTML or XML document as a module"],
    ["\x7fELF\x02\x01", "Cannot load a cubin that was read as text: pass its bytes, as a Uint8Array"],
    [Promise.resolve(ptx), "Cannot load a module from a value of type Promise: await the promise first"],
    [new Response(ptx), "Cannot load a module from a value of type Response: pass await response.text()"],
    [new URL("file:///fill.ptx"), "Cannot load a module from a value of type URL: read the file first"],
    [5, "Cannot load a module from a value of type Number: pass PTX text"],
    [new ArrayBuffer(8), "from a value of type ArrayBuffer: pass a Uint8Array of it"],
    [undefined, "Cannot load a module from a value of type Undefined: pass PTX text"],
  ];
  for (const [image, message] of refusals) {
    assertThrows(() => cuda.device(0).loadModule(image as Anything), TypeError, message);
  }
  // Space and comments may come first, whatever they say.
  using module = cuda.device(0).loadModule(`\n  // #include __global__ <html>\n${ptx}`);
  assertEquals(module.kernelNames.length, 2);
});
