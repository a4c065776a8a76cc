import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { kernelSignatures, layoutParameters } from "../../src/ptx/kernel_signature.ts";
import { PtxError } from "../../src/ptx/syntax.ts";

const header = ".version 8.5\n.target sm_90a, debug\n.address_size 64\n";

test("kernelSignatures lays parameters out as a C struct", () => {
  const [kernel] = kernelSignatures(`${header}
.visible .entry k(
  .param .u8 a, // one byte
  .param .f64 b, /* eight
  bytes */
  .param .u16 c,
  .param .align 16 .b8 d[24],
  .param .align 2 .b8 e[3],
  .param .u64 .ptr .global .align 16 f,
  .param .f16 g,
  .param .align 4 .b8 h[1][6],
  .param .b32 i[2]
) { ret; }`);
  assertEquals(kernel!.parameters.map(({ offset }) => offset), [0, 8, 16, 32, 56, 64, 72, 76, 84]);
  assertEquals(kernel!.parameters.map(({ type }) => type), [
    "u8",
    "f64",
    "u16",
    { byteLength: 24, alignment: 16 },
    { byteLength: 3, alignment: 2 },
    "u64",
    "f16",
    { byteLength: 6, alignment: 4 },
    { byteLength: 8, alignment: 4 },
  ]);
  assertEquals(kernel!.parameterBytes, 92);
});

test("kernelSignatures knows pointers by .ptr, but not those into shared or local memory, whose addresses are small", () => {
  const [kernel] = kernelSignatures(`${header}
.visible .entry k(
  .param .u64 .ptr .align 1 generic,
  .param .u64 .ptr .global .align 4 global,
  .param .u64 .ptr .shared .align 4 shared,
  .param .u64 .ptr .local .align 4 local,
  .param .u64 number
) { ret; }`);
  assertEquals(kernel!.parameters.map(({ isPointer }) => isPointer), [true, true, undefined, undefined, undefined]);
});

test("kernelSignatures accepts everything that the manual allows around a body", () => {
  const signatures = kernelSignatures(`// .entry not_this()
${header}
/* .entry nor_this() { */
.file 1 "a } file.cu", 1234, 5
.extern .func (.param .b32 r) vprintf(.param .b64 x, .param .b64 y);
.global .align 4 .u32 table[2] = { 1, generic(table) + 4 };
.func helper(.param .b32 x) { { future.op.v99 \\\`#, %r; } ret; }
.extern .entry declared_only(.param .u32 x);
.weak .entry _Z1kPfi(.param .u64 p, .param .u32 n)
.maxntid 256, 1, 1
.minnctapersm 2
.maxnreg 64
.pragma "nounroll";
{
  .loc 1 7 3, function_name $L__info_string0, inlined_at 1 2 3
  { tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, {%r1, %r2}, !%p1; }
  $L: @!%p bra.uni $L;
}
.entry nothing
.reqntid 32
.noreturn
{ }
.entry empty() { }
.section .debug_info { .b8 1, 2
.b32 .entry }
`);
  assertEquals(signatures.map(({ name }) => name), ["_Z1kPfi", "nothing", "empty"]);
  assertEquals(signatures.map(({ parameterBytes }) => parameterBytes), [12, 0, 0]);
});

test("kernelSignatures names the line of an error", () => {
  const errors: [text: string, line: number, message: RegExp][] = [
    [`${header}.entry k(.param .u32 a\n.param .u32 b) {}`, 5, /"," was expected/],
    [`${header}.entry k(.param .u33 a) {}`, 4, /"\.u33": it is not a known type/],
    [`${header}.entry k(.param .align 3 .b8 a[3]) {}`, 4, /power of two/],
    [`${header}.entry k(.param .b8 a[]) {}`, 4, /needs a length/],
    [`${header}.entry k(.reg .pred a) {}`, 4, /cannot pass "a"/],
    [`${header}.entry k()\n\n{ { }`, 6, /cannot find the "}"/],
    [`${header}.entry k() {}\n/* never closed`, 5, /comment/],
    [`${header}.entry k(`, 4, /the text ends|end of the text/],
    [`${header}.entry k(.param .b8 a[99999]) {}`, 4, /the maximum is 32764/],
    [`${header}.entry k() {} .entry k() {}`, 1, /both are named "k"/],
  ];
  for (const [text, line, message] of errors) {
    const error = assertThrows(() => kernelSignatures(text), PtxError) as PtxError;
    assertEquals(error.line, line, text);
    assert(message.test(error.message) && error.message.startsWith(`Line ${line}: `), error.message);
  }
});

test("layoutParameters lays out given types in the same way", () => {
  const { parameters, parameterBytes, name } = layoutParameters("k", ["u8", "u64", { byteLength: 12, alignment: 4 }]);
  assertEquals(name, "k");
  assertEquals(parameters.map(({ offset }) => offset), [0, 8, 16]);
  assertEquals(parameterBytes, 28);
});
