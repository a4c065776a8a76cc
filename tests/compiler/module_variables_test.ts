import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { PtxError } from "../../src/ptx/syntax.ts";
import { compilePtx } from "../../src/software/compiler/compile.ts";
import { faultKind } from "../../src/software/abi/addresses.ts";
import { allocate, Fault, load, refusalOf, type RefusedPart, type TestModule, testModule } from "./compiler_device.ts";

/** The lines before the first declaration in {@linkcode moduleWith}. */
const linesBefore = 3;

/** {@linkcode testModule} with declarations before its kernel. */
function moduleWith(declarations: string, body = ""): string {
  return testModule(body).replace(".visible", `${declarations}\n.visible`);
}

/** Runs a module's kernel with dynamic shared memory, and returns what it wrote to `out`. */
function runModule(module: TestModule, outputBytes: number, sharedMemoryBytes = 0): DataView {
  const out = allocate(outputBytes);
  module.run("test", {
    parameters: [{ type: "u64", value: out.address }, { type: "u64", value: 0 }],
    sharedMemoryBytes,
  });
  return out.view;
}

function faultOf(module: TestModule): Fault | undefined {
  try {
    runModule(module, 8);
    return undefined;
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
}

const initialized: readonly [declaration: string, bytes: string][] = [
  [".global .u32 x;", "00000000"],
  [".global .u8 x = 300;", "2c"],
  [".global .s8 x = -2;", "fe"],
  [".global .u16 x = 0x1234;", "3412"],
  [".global .s16 x = -1;", "ffff"],
  [".global .u32 x = 010;", "08000000"],
  [".global .s32 x = -2;", "feffffff"],
  [".global .b64 x = -1;", "ffffffffffffffff"],
  [".global .u64 x = 18446744043644780664;", "78000000f9ffffff"],
  [".global .f32 x = 0f3FC00000;", "0000c03f"],
  [".global .f32 x = 0d3FF8000000000000;", "0000c03f"],
  [".global .f32 x = -1.5;", "0000c0bf"],
  [".global .b32 x = 0f3F800000;", "0000803f"],
  [".global .b8 x[3] = {0.1, 0f12345678, 0d123456789abcdef0};", "9a78f0"],
  [".global .b16 x[3] = {0.1, 0f12345678, 0d123456789abcdef0};", "9a997856f0de"],
  [".global .b64 x = 0f12345678;", "7856341200000000"],
  [".global .u32 x[2] = {1+1, -(3)*2};", "02000000faffffff"],
  [".global .f64 x = 0d3FF8000000000000;", "000000000000f83f"],
  [".global .f64 x = 2e3;", "0000000000409f40"],
  [".global .f16 x;", "0000"],
  [".global .b8 x[4] = {1, 2};", "01020000"],
  [".global .b8 x[3] = {};", "000000"],
  [".global .u16 x[] = {1, 2, 3};", "010002000300"],
  [".global .u8 x[2][3] = {{1}, {2, 3}};", "010000020300"],
  [".global .u8 x[][2] = {{1, 2}, {3}, {4, 5}};", "010203000405"],
  [".global .u8 x[2][2][2] = {{{1}, {2, 3}}, {{4, 5}, {6, 7}}};", "0100020304050607"],
  [".global .v2 .f32 x = {1.0, 2.0};", "0000803f00000040"],
  [".global .v4 .u8 x[2] = {{1, 2, 3, 4}};", "0102030400000000"],
  [".visible .global .align 16 .attribute(.managed) .u32 x = 4;", "04000000"],
  [".weak .global .u32 y = 9, x = 7, z[2] = {1, 2};", "07000000"],
  [".common .global .u32 x;", "00000000"],
  [".const .align 4 .b8 x[6] = {1, 2};", "010200000000"],
  [".extern .global .u32 x; .visible .global .u32 x = 5; .extern .global .u32 x;", "05000000"],
];

test("variables have the values of their initializers", () => {
  for (const [declaration, bytes] of initialized) {
    assertEquals(load(moduleWith(declaration)).variable("x").bytes.toHex(), bytes, declaration);
  }
});

test("initializers contain the addresses of variables", () => {
  const module = load(moduleWith(`
.global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.const .u32 constant = 3;
.global .u64 plain = table, beyond = table+4, before = generic(table)+-1;
.global .align 8 .u64 list[4] = {generic(table), generic(table)+6, 17, generic(constant)};
.global .v2 .u64 pair = {generic(later), later};
.global .u8 packed[9] = {7, 0XFF(generic(table)+6), 0xFF00(generic(table)+6), 0xFF0000(generic(table)+6),
  0xFF000000(generic(table)+6), 0xFF00000000(generic(table)+6), 0xFF0000000000(generic(table)+6),
  0xFF000000000000(generic(table)+6), 0xFF00000000000000(generic(table)+6)};
.global .u32 later;`));
  const table = module.variable("table").address;
  const addresses = (name: string) => [...new BigUint64Array(module.variable(name).bytes.slice().buffer)];
  assertEquals(["plain", "beyond", "before"].flatMap(addresses), [table, table + 4n, table - 1n]);
  assertEquals(addresses("list"), [table, table + 6n, 17n, module.variable("constant").address]);
  assertEquals(addresses("pair"), [module.variable("later").address, module.variable("later").address]);
  const packed = module.variable("packed").view;
  assertEquals([packed.getUint8(0), packed.getBigUint64(1, true)], [7, table + 6n]);
});

test("kernels can name variables in every way", () => {
  const module = load(moduleWith(
    `
.visible .global .align 4 .f32 number = 0f40200000;
.global .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4};
.const .align 8 .f64 factors[2] = {1.5, -2.5};
.global .u64 pointer = generic(table)+8;
.global .u32 counter = 40;`,
    `
  ld.global.f32 %f1, [number];
  st.global.f32 [%rd0], %f1;
  ld.global.u32 %r1, [table+4];
  st.global.u32 [%rd0+4], %r1;
  mov.u64 %rd2, table;
  ld.global.nc.u32 %r2, [%rd2+8];
  st.global.u32 [%rd0+8], %r2;
  mov.b64 %rd3, table+12;
  cvta.global.u64 %rd4, %rd3;
  ld.u32 %r3, [%rd4];
  st.global.u32 [%rd0+12], %r3;
  cvta.global.u64 %rd5, table+8;
  cvta.to.global.u64 %rd6, %rd5;
  ld.global.u32 %r4, [%rd6+-4];
  st.global.u32 [%rd0+16], %r4;
  ld.u32 %r5, [table+8];
  st.global.u32 [%rd0+20], %r5;
  ld.global.u64 %rd7, [pointer];
  ld.u32 %r6, [%rd7];
  st.global.u32 [%rd0+24], %r6;
  atom.global.add.u32 %r7, [counter], 2;
  st.global.u32 [%rd0+28], %r7;
  ld.const.f64 %fd1, [factors+8];
  st.global.f64 [%rd0+32], %fd1;
  mov.u64 %rd8, factors;
  ld.const.f64 %fd2, [%rd8];
  st.global.f64 [%rd0+40], %fd2;
  cvta.const.u64 %rd9, %rd8;
  ld.f64 %fd3, [%rd9+8];
  st.global.f64 [%rd0+48], %fd3;
  st.global.f32 [number], 0f3F800000;
  st.u32 [%rd4], 77;`,
  ));
  const out = runModule(module, 56);
  assertEquals(out.getFloat32(0, true), 2.5);
  assertEquals([4, 8, 12, 16, 20, 24, 28].map((offset) => out.getUint32(offset, true)), [2, 3, 4, 2, 3, 3, 40]);
  assertEquals([32, 40, 48].map((offset) => out.getFloat64(offset, true)), [-2.5, 1.5, -2.5]);
  assertEquals(module.variable("number").view.getFloat32(0, true), 1);
  assertEquals(module.variable("table").view.getUint32(12, true), 77);
  assertEquals(module.variable("counter").view.getUint32(0, true), 42);
  runModule(module, 56);
  assertEquals(module.variable("counter").view.getUint32(0, true), 44, "variables live as long as their module");
});

test("each load of a module has its own variables", () => {
  const ptx = moduleWith(
    ".global .u32 counter;",
    "red.global.add.u32 [counter], 1;\nmov.u64 %rd2, counter;\nst.global.u64 [%rd0], %rd2;",
  );
  const [first, second] = [load(ptx), load(ptx)];
  assertEquals(runModule(first, 8).getBigUint64(0, true), first.variable("counter").address);
  assertEquals(runModule(second, 8).getBigUint64(0, true), second.variable("counter").address);
  runModule(second, 8);
  assertEquals([first, second].map((module) => module.variable("counter").view.getUint32(0, true)), [1, 2]);
});

test("a variable ends at its last byte, whatever follows it", () => {
  const declarations = ".global .b8 a[3]; .global .align 4 .b8 b[1028]; .const .u32 c[3]; .global .u32 d;";
  const access = (instruction: string) => faultOf(load(moduleWith(declarations, instruction)));
  for (
    const [legal, illegal] of [
      ["ld.global.u8 %r1, [a+2];", "ld.global.u8 %r1, [a+3];"],
      ["st.global.u32 [b+1024], 1;", "st.global.u32 [b+1028], 1;"],
      ["ld.const.u32 %r1, [c+8];", "ld.const.u32 %r1, [c+12];"],
      ["ld.u32 %r1, [d];", "ld.u32 %r1, [d+4];"],
    ] as const
  ) {
    assertEquals(access(legal), undefined, legal);
    assertEquals(access(illegal)?.kind, faultKind.illegalAddress, illegal);
  }
  assertEquals(access("ld.global.u16 %r1, [a+1];")?.kind, faultKind.misalignedAddress);
});

test("the image respects alignment, and each variable begins a granule", () => {
  const { image } = compilePtx(moduleWith(
    ".global .u8 a; .const .u8 k; .global .align 4096 .b8 b[5000]; .extern .global .u32 e; .const .f64 l[2]; .shared .u8 s;",
  ));
  assertEquals([...image.variables], [
    ["a", { space: "global", offset: 0, byteLength: 1 }],
    ["b", { space: "global", offset: 4096, byteLength: 5000, elementBytes: 1 }],
    ["k", { space: "const", offset: 9216, byteLength: 1 }],
    ["l", { space: "const", offset: 9728, byteLength: 16, elementBytes: 8 }],
  ]);
  assertEquals(image.byteLength, 10240);
  assertEquals(compilePtx(testModule("")).image.byteLength, 0);
});

test("a large variable costs nothing until it is placed", () => {
  const { image } = compilePtx(moduleWith(".global .align 4 .b8 x[2000000000] = {1}; .global .f32 y[1000][1000];"));
  assertEquals(image.variables.get("x")?.byteLength, 2_000_000_000);
  assertEquals(image.variables.get("y")?.byteLength, 4_000_000);
  assertEquals(image.initialValues.length, 1);
});

test("isspacep tells constants from other variables", () => {
  const out = runModule(
    load(moduleWith(
      ".global .u32 g; .const .u32 c; .const .u32 d;",
      `
  .shared .u32 s;
  cvta.global.u64 %rd2, g;
  cvta.const.u64 %rd3, d;
  cvta.shared.u64 %rd4, s;
  ${
        [2, 3, 4].flatMap((pointer) =>
          ["global", "const", "shared"].map((space, index) => `
  isspacep.${space} %p1, %rd${pointer};
  selp.u32 %r1, 1, 0, %p1;
  st.global.u8 [%rd0+${(pointer - 2) * 3 + index}], %r1;`)
        ).join("")
      }`,
    )),
    9,
  );
  assertEquals(new Uint8Array(out.buffer, out.byteOffset, 9).toHex(), "010000" + "000100" + "000001");
});

test("module-scope shared variables belong to the kernels that name them", () => {
  const other = testModule("").replace(/^[^]*(?=\.visible)/, "").replace("test", "other");
  const ptx = moduleWith(
    ".shared .align 4 .b8 tile[40];\n.visible .shared .f64 pair[2];\n.shared .u32 unused[9];",
    `
  .shared .u32 own;
  mov.u32 %r1, tile+4;
  st.shared.u32 [%r1], 5;
  st.shared.u32 [own], 6;
  st.shared.f64 [pair+8], 0d3FF8000000000000;
  cvta.shared.u64 %rd2, tile;
  ld.u32 %r2, [%rd2+4];
  ld.u32 %r3, [own];
  ld.shared.f64 %fd1, [pair+8];
  st.global.u32 [%rd0], %r2;
  st.global.u32 [%rd0+4], %r3;
  st.global.f64 [%rd0+8], %fd1;`,
  ) + other;
  const { kernels } = compilePtx(ptx);
  assertEquals([kernels.get("test")!.sharedBytes, kernels.get("other")!.sharedBytes], [64, 0]);
  const out = runModule(load(ptx), 16);
  assertEquals([out.getUint32(0, true), out.getUint32(4, true), out.getFloat64(8, true)], [5, 6, 1.5]);
});

const dynamic = `
  .shared .b8 own[3];
  mov.u32 %r1, first;
  mov.u32 %r2, second;
  st.global.u32 [%rd0], %r1;
  st.global.u32 [%rd0+4], %r2;
  st.shared.u8 [own+2], 9;
  st.shared.u32 [first+4], 7;
  ld.shared.u32 %r3, [second+4];
  st.global.u32 [%rd0+8], %r3;`;

test("dynamic shared memory follows the kernel's own, under all its names", () => {
  const module = load(moduleWith(".extern .shared .align 4 .b8 first[];\n.extern .shared .f64 second[];", dynamic));
  const out = runModule(module, 12, 8);
  assertEquals([0, 4, 8].map((offset) => out.getUint32(offset, true)), [16, 16, 7]);
  const ptx = moduleWith(".extern .shared .align 128 .b8 first[], second[];", dynamic);
  assertEquals(compilePtx(ptx).kernels.get("test")!.sharedBytes, 128);
});

test("dynamic shared memory has the size of the launch", () => {
  const kindOf = (instruction: string, sharedMemoryBytes: number) => {
    const body = `mov.u64 %rd2, area;\ncvta.shared.u64 %rd3, %rd2;\nmov.u64 %rd4, -8;\n${instruction}`;
    const module = load(moduleWith(".extern .shared .align 16 .b8 area[];", body));
    try {
      runModule(module, 8, sharedMemoryBytes);
      return undefined;
    } catch (error) {
      return error instanceof Fault ? error.kind : error;
    }
  };
  for (const instruction of ["st.shared.u64 [area+8], 1;", "st.u64 [%rd3+8], 1;", "ld.shared.u64 %rd5, [%rd2+8];"]) {
    assertEquals(kindOf(instruction, 16), undefined, instruction);
    assertEquals(kindOf(instruction, 15), faultKind.illegalAddress, instruction);
    assertEquals(kindOf(instruction, 0), faultKind.illegalAddress, instruction);
  }
  assertEquals(kindOf("st.shared.u64 [%rd4], 1;", 16), faultKind.illegalAddress);
  assertEquals(kindOf("st.shared.u64 [%rd4], 1;", 0), faultKind.illegalAddress);
  assertEquals(kindOf("st.shared.u64 [area+4], 1;", 16), faultKind.misalignedAddress);
});

test("the shared memory that a launch adds is there for a kernel that names none", () => {
  // The second argument has the address in `.shared` as 32 and as 64 bits, and as a generic address.
  const kindOf = (instruction: string, sharedMemoryBytes: number) => {
    const body = `.shared .align 16 .b8 own[16];
      mov.u32 %r2, own; mov.u64 %rd2, own; cvta.shared.u64 %rd3, %rd2;\n${instruction}`;
    try {
      runModule(load(moduleWith("", body)), 8, sharedMemoryBytes);
      return undefined;
    } catch (error) {
      return error instanceof Fault ? error.kind : error;
    }
  };
  for (const base of ["shared.u64 [%r2", "shared.u64 [%rd2", "shared.u64 [own", "u64 [%rd3"]) {
    for (const [bytes, kind] of [[16, undefined], [15, faultKind.illegalAddress], [0, faultKind.illegalAddress]]) {
      assertEquals(kindOf(`st.${base}+24], 1;`, bytes!), kind, `${base} ${bytes}`);
      assertEquals(kindOf(`atom.${base.replace("u64", "add.u64").replace("[", "%rd5, [")}+24], 1;`, bytes!), kind);
    }
    assertEquals(kindOf(`st.${base}+28], 1;`, 64), faultKind.misalignedAddress);
  }
});

const refused: readonly [declarations: string, message: RegExp][] = [
  [".global .u32 x = 1.5;", /floating-point number is used where a "\.u32" is needed/],
  [".global .f32 x = 1;", /the integer 1 is used where a "\.f32"/],
  [".global .f16 x = 0x3c00;", /"\.f16" is needed/],
  [".global .u16 x = 1.0;", /floating-point/],
  [".global .u32 x[2] = {1, 2, 3};", /it is given 3 values and has room for 2/],
  [".global .u32 x[2][2] = {1, 2};", /needs braces around its values/],
  [".global .u32 x[2] = 5;", /needs braces around its values/],
  [".global .u32 x = {5};", /cannot read "{"/],
  [".global .u32 x[2] = {1, 2,};", /cannot read "}"/],
  [".global .u32 x[] = {};", /without a length/],
  [".global .u32 x[];", /without a length/],
  [".global .u32 x[2][];", /an integer below/],
  [".global .u32 x = 08;", /octal/],
  [".global .u32 y; .global .u16 x = y;", /an address does not fit in "\.u16"/],
  [".global .u32 y; .global .b8 x = 0xFF(y);", /that part of an address does not fit in "\.b8"/],
  [".global .v2 .u32 x = {1};", /a vector needs 2 values, and it is given 1/],
  [".global .v4 .f64 x;", /vectors have at most 128/],
  [".tex .u32 x;", /since PTX 1\.5/],
  [".local .u32 x;", /in "\.local" outside a function/],
  [".param .u32 x;", /in "\.param" outside a function/],
  [".common .const .u32 x;", /only variables in \.global can be/],
  [".extern .global .u32 x = 1;", /it is external/],
  [".shared .u32 x = 1;", /it is in "\.shared"/],
  [".visible .extern .global .u32 x;", /cannot declare both/],
  [".global .u32 .align 8 x;", /it stands further in front/],
  [".global .u32 y; .global .u8 x = 0xFFFF(y);", /that part of an address does not fit in "\.u8"/],
  [
    ".global .u64 x = nothing;",
    /"nothing" is neither a function nor a variable in \.global or \.const that this module defines/,
  ],
  [".shared .u32 y; .global .u64 x = generic(y);", /"y" is neither a function nor a variable in \.global or \.const/],
  [".global .u32 x; .global .u32 x;", /cannot define the variable "x" twice/],
  [".global .pred x;", /predicates are registers/],
  [".const .b8 x[65537];", /65536 bytes of \.const/],
];

test("invalid variables are refused with their line", () => {
  for (const [declarations, message] of refused) {
    const error = assertThrows(() => compilePtx(moduleWith(`\n${declarations}`)), PtxError) as PtxError;
    assert(message.test(error.message), `${declarations}: ${error.message}`);
    assertEquals(error.line, linesBefore + 2, declarations);
    assert(error.message.startsWith(`Line ${error.line}: cannot `) && !error.message.endsWith("."), error.message);
  }
});

const unsupported: readonly [declarations: string, message: RegExp][] = [
  [
    ".extern .global .u32 y; .global .u64 x = y;",
    /cannot initialize "x" with the address of "y": this module declares/,
  ],
  [".global .texref x;", /variables of type "\.texref"/],
  [".global .samplerref x = { addr_mode_0 = wrap };", /variables of type "\.samplerref"/],
  [".global .b128 x = 5;", /variables of type "\.b128"/],
  [".global .align 131072 .u32 x;", /the maximum is 65536/],
  [".global .f64 x[1000000000];", /the module's variables do not fit in memory/],
  // The chain may be declared in any order, and may be circular.
  [".global .u64 x[2] = {y, x}; .global .u64 y = z; .global .texref z;", /"x" with the address of "y"/],
  [".extern .const .u32 z; .global .u64 y = generic(z); .global .u64 x[1] = {generic(y)+8};", /the address of "y"/],
];

test("a variable that is not supported refuses the kernels that use it, and no others", () => {
  for (const [declarations, message] of unsupported) {
    const ptx = moduleWith(`\n${declarations} .global .u32 good = 5;`, "mov.u64 %rd2, x;") +
      `.visible .entry other() { .reg .b32 %r; ld.global.u32 %r, [good]; ret; }
       .func indirect() { .reg .b64 %r; mov.u64 %r, x; ret; }
       .visible .entry calling() { call indirect; ret; }`;
    const { wasm, kernels, refusals, image } = compilePtx(ptx);
    assert(WebAssembly.validate(wasm));
    assertEquals([...kernels.keys()], ["other"], declarations);
    const error = refusals.get("test")!;
    assert(message.test(error.message), `${declarations}: ${error.message}`);
    assertEquals(error.line, linesBefore + 2, declarations);
    assertEquals(refusals.get("calling")!.message, error.message);
    assertEquals([image.variables.has("x"), image.variables.has("good")], [false, true]);
  }
});

const misused: readonly [declarations: string, body: string, message: RegExp, part?: RefusedPart][] = [
  [".extern .global .u32 x;", "mov.u64 %rd2, x;", /declares it but does not define it/, "kernel"],
  [".global .u32 x;", "mov.u32 %r1, x;", /needs 64 bits/],
  [".global .u32 x;", "ld.const.u32 %r1, [x];", /"x" is in "\.global"/],
  [".const .u32 x;", "ld.global.u32 %r1, [x];", /"x" is in "\.const"/],
  [".const .u32 x;", "ld.u32 %r1, [x];", /"x" is in "\.const"/],
  [".const .u32 x;", "st.const.u32 [x], 1;", /"\.const" is not known here/],
  [".const .u32 x;", "cvta.global.u64 %rd2, x+4;", /"x" is in "\.const"/],
  ["", ".shared .u32 x = 4; ld.shared.u32 %r1, [x];", /cannot initialize "x"/],
  [".shared .u32 x[60000];", "ld.shared.u32 %r1, [x];", /232448/],
  [".func f() { ret; }", "mov.u16 %h1, f;", /the address of a function needs 32 or 64 bits/],
  [".func f() { ret; }", "mov.u64 %rd2, f+8;", /cannot add to this operand/],
  [".func f() { ret; }", "ld.u32 %r1, [f];", /cannot use "f" as an address/],
];

test("invalid uses of variables are refused", () => {
  for (const [declarations, body, message, expected = "module"] of misused) {
    const { error, part } = refusalOf(moduleWith(declarations, body));
    assert(message.test(error.message), `${body}: ${error.message}`);
    assertEquals(part, expected, body);
  }
});

test("a name in a kernel shadows a variable of the module", () => {
  const out = runModule(
    load(moduleWith(".global .u32 x = 5;", "{ .reg .u32 x; mov.u32 x, 6; st.global.u32 [%rd0], x; }")),
    4,
  );
  assertEquals(out.getUint32(0, true), 6);
});
