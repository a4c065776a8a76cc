import { assert, assertEquals, assertThrows } from "@std/assert";
import { PtxError } from "../../src/ptx/syntax.ts";
import { compilePtx } from "../../src/software/compiler/compile.ts";
import { faultKind } from "../../src/software/abi/addresses.ts";
import { allocate, Fault, firstBodyLine, load, refusalOf, type RefusedPart, testModule } from "./compiler_device.ts";
import { randomNumbers } from "./instructions/references.ts";
import { runThreads, threadsModule, upTo } from "./threads.ts";
import { test } from "../support/test.ts";

const few = { block: [3, 1, 1] } as const;

/** The error for a body, its line, counted from the body's first, and what it concerns. */
function refusal(body: string, declarations: string): [line: number, message: string, part: RefusedPart] {
  // The declarations are on one line, so that they move the body by one.
  const ptx = testModule(body).replace(".visible", `${declarations.replaceAll("\n", " ")}\n.visible`);
  const { error, part } = refusalOf(ptx);
  return [error.line - firstBodyLine - 1, error.message, part];
}

function faultOf(body: string, declarations: string): Fault {
  return assertThrows(() => runThreads(body, { ...few, declarations }), Fault) as Fault;
}

test("structures of any size are passed and returned by value", { long: true }, () => {
  for (let size = 1; size <= 40; size++) {
    for (const alignment of [1, 2, 4, 8, 16]) {
      const declarations = `
.func (.param .align ${alignment} .b8 result[${size}]) turn(.param .b32 before, .param .align ${alignment} .b8 s[${size}], .param .b8 behind) {
  .reg .b32 %r<5>; .reg .b64 %rd<3>;
  ld.param.u32 %r1, [before];
  ld.param.u8 %r2, [behind];
  ${
        upTo(size, (index) =>
          `ld.param.u8 %r3, [s+${index}]; mad.lo.u32 %r3, %r3, %r1, %r2; st.param.u8 [result+${
            size - 1 - index
          }], %r3; st.param.u8 [s+${index}], 0;`).join("\n")
      }
  ret;
}`;
      const body = `
  .param .align ${alignment} .b8 s[${size}]; .param .align ${alignment} .b8 t[${size}]; .param .b32 a; .param .b8 b;
  .param .b64 guard;
  st.param.b32 [a], 3; st.param.b8 [b], 200; st.param.b64 [guard], 77;
  ${upTo(size, (index) => `add.u32 %r3, %r0, ${index}; st.param.b8 [s+${index}], %r3;`).join("\n")}
  call.uni (t), turn, (a, s, b);
  ${upTo(size, (index) => `ld.param.u8 %r3, [t+${index}]; st.global.u8 [%rd2+${index}], %r3;`).join("\n")}
  ${upTo(size, (index) => `ld.param.u8 %r3, [s+${index}]; st.global.u8 [%rd2+${size + index}], %r3;`).join("\n")}
  ld.param.u64 %rd4, [guard]; st.global.u8 [%rd2+${2 * size}], %rd4;`;
      const words = Math.ceil((2 * size + 1) / 4);
      const written = new Uint8Array(new Uint32Array(runThreads(body, { ...few, words, declarations })).buffer);
      for (let thread = 0; thread < 3; thread++) {
        const passed = upTo(size, (index) => thread + index);
        const returned = passed.map((value) => value * 3 + 200 & 255).toReversed();
        assertEquals(
          [...written.subarray(thread * words * 4).subarray(0, 2 * size + 1)],
          [...returned, ...passed, 77],
          `${size} bytes, aligned to ${alignment}`,
        );
      }
    }
  }
});

const types = [["u8", 1], ["s16", 2], ["b32", 4], ["f32", 4], ["u64", 8], ["f64", 8]] as const;

test("arguments and results of every type are passed from variables, registers and literals", () => {
  const random = randomNumbers(0x9e37_79b9_7f4a_7c15n);
  const below = (limit: number) => Number(random() % BigInt(limit));
  for (let round = 0; round < 40; round++) {
    const parameters = upTo(1 + below(14), () => types[below(types.length)]!);
    const results = upTo(below(4), () => below(parameters.length));
    const declare = (names: string, list: readonly (readonly [string, number])[]) =>
      list.map(([type], index) => `.param .${type} ${names}${index}`).join(", ");
    const register = (type: string, index: number) => `%v${type}_${index}`;
    const registers = types.map(([type]) => `.reg .${type} %v${type}_<20>;`).join(" ");
    const resultTypes = results.map((index) => parameters[index]!);
    const declarations = `
.global .align 8 .b8 seen[112];
.func ${results.length === 0 ? "" : `(${declare("r", resultTypes)})`} f(${declare("p", parameters)}) {
  ${registers}
  ${
      parameters.map(([type], index) =>
        `ld.param.${type} ${register(type, index)}, [p${index}];
  st.global.${type} [seen+${8 * index}], ${register(type, index)};`
      ).join("\n")
    }
  ${
      results.map((from, index) => {
        const [type] = parameters[from]!;
        return `st.param.${type} [r${index}], ${register(type, from)};`;
      }).join("\n")
    }
  ret;
}`;
    const source = parameters.map(() => ["variable", "register", "number"][below(3)]!);
    const number = (type: string) =>
      type === "f32" ? "0f40490FDB" : type === "f64" ? "0d400921FB54442D18" : String(below(100));
    const numbers = parameters.map(([type]) => number(type));
    const direct = results.map(() => below(2) === 0);
    const body = `
  ${registers}
  ${
      parameters.map(([type], index) =>
        `.param .${type} a${index};
  ld.global.${type} ${register(type, index)}, [%rd1+${8 * index}];
  st.param.${type} [a${index}], ${register(type, index)};`
      ).join("\n")
    }
  ${resultTypes.map(([type], index) => `.param .${type} b${index};`).join("\n")}
  call ${
      results.length === 0
        ? ""
        : `(${
          results.map((_, index) => direct[index] ? register(resultTypes[index]![0], 15 + index) : `b${index}`).join(
            ", ",
          )
        }), `
    }f, (${
      parameters.map(([type], index) =>
        source[index] === "variable"
          ? `a${index}`
          : source[index] === "register"
          ? register(type, index)
          : numbers[index]
      ).join(", ")
    });
  ${
      resultTypes.map(([type], index) => `
  ${direct[index] ? "" : `ld.param.${type} ${register(type, 15 + index)}, [b${index}];`}
  st.global.${type} [%rd2+${8 * index}], ${register(type, 15 + index)};`).join("\n")
    }`;
    const input = upTo(28, () => Number(random() & 0xffff_ffffn));
    const module = load(threadsModule(body, { declarations }));
    const [given, out] = [allocate(112), allocate(32)];
    input.forEach((value, index) => given.view.setUint32(4 * index, value, true));
    module.run("test", {
      parameters: [{ type: "u64", value: out.address }, { type: "u64", value: given.address }],
    });
    const expected = parameters.map(([type, bytes], index) => {
      const value = new Uint8Array(8);
      const view = new DataView(value.buffer);
      if (source[index] !== "number") value.set(given.bytes.subarray(8 * index, 8 * index + bytes));
      else if (type === "f32") view.setFloat32(0, Math.PI, true);
      else if (type === "f64") view.setFloat64(0, Math.PI, true);
      else view.setBigUint64(0, BigInt(numbers[index]!), true);
      return value;
    });
    const what = `round ${round}\n${declarations}\n${body}`;
    expected.forEach((value, index) => {
      assertEquals(module.variable("seen").bytes.subarray(8 * index, 8 * index + 8), value, what);
    });
    results.forEach((from, index) => assertEquals(out.bytes.subarray(8 * index, 8 * index + 8), expected[from], what));
  }
});

const double = `
.func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %r; ld.param.u32 %r, [a]; add.u32 %r, %r, %r; st.param.b32 [r], %r; ret; }
.func (.param .b32 r) thrice(.param .b32 a) { .reg .b32 %r; ld.param.u32 %r, [a]; mul.lo.u32 %r, %r, 3; st.param.b32 [r], %r; ret; }
.func (.param .b32 r) waiting(.param .b32 a) {
  .reg .b32 %r; .reg .b64 %rd; ld.param.u32 %r, [a]; shl.b32 %r, %r, 4; nanosleep.u32 %r; st.param.b32 [r], %r; ret;
}`;

test("a predicated call is made only by threads whose predicate is true", () => {
  const written = runThreads(
    `
  and.b32 %r3, %r0, 1;
  setp.eq.u32 %p1, %r3, 1;
  mov.u32 %r4, 1000;
  @%p1 call (%r4), twice, (%r0);
  @!%p1 call.uni (%r5), waiting, (%r0);
  @!%p1 add.u32 %r4, %r4, %r5;
  st.global.u32 [%rd2], %r4;`,
    { block: [40, 1, 1], declarations: double },
  );
  assertEquals(written, upTo(40, (thread) => thread % 2 === 1 ? 2 * thread : 1000 + 16 * thread));
});

test("functions can be called by address, from registers and from variables", () => {
  const written = runThreads(
    `
  .param .b32 a; .param .b32 b;
  mov.u64 %rd3, twice;
  rem.u32 %r3, %r0, 3;
  setp.eq.u32 %p1, %r3, 1;
  @%p1 mov.b64 %rd3, waiting;
  setp.eq.u32 %p1, %r3, 2;
  @%p1 ld.global.u64 %rd3, [table+8];
  P: .callprototype (.param .b32 _) _ (.param .b32 _);
  st.param.b32 [a], %r0;
  call (b), %rd3, (a), P;
  ld.param.u32 %r4, [b];
  mul.wide.u32 %rd4, %r3, 8;
  mov.u64 %rd5, table;
  add.u64 %rd5, %rd5, %rd4;
  ld.global.u64 %rd6, [%rd5];
  call.uni (%r5), %rd6, (1), P;
  mad.lo.u32 %r4, %r4, 100, %r5;
  st.global.u32 [%rd2], %r4;`,
    {
      block: [70, 1, 1],
      declarations: `${double}\n.global .align 8 .u64 table[3] = {waiting, thrice, generic(twice)};`,
    },
  );
  const [taken, tabled] = [[2, 16, 3], [16, 3, 2]];
  assertEquals(written, upTo(70, (thread) => thread * taken[thread % 3]! * 100 + tabled[thread % 3]!));
});

test("a call of an address without a function faults, with its line", () => {
  for (const address of ["0", "8", "0x7a0500000008", "0x7a0500000ff0", "0x7a0000020000"]) {
    const fault = faultOf(
      `mov.u64 %rd3, ${address};\nP: .callprototype (.param .b32 _) _ (.param .b32 _);\n call (%r3), %rd3, (%r0), P;`,
      `${double}\n.global .u64 table = twice;`,
    );
    assertEquals([fault.kind, fault.address], [faultKind.invalidFunction, BigInt(address)]);
  }
  // A kernel cannot be called.
  const ofKernel = faultOf("mov.u64 %rd3, test;\nP: .callprototype _ ();\ncall %rd3, (), P;", double);
  assertEquals(ofKernel.kind, faultKind.invalidFunction);
});

test("of several calls by address, the one that faults is named", () => {
  const call = (register: string) => `call (%r3), ${register}, (%r0), P;`;
  const body = `P: .callprototype (.param .b32 _) _ (.param .b32 _);
mov.u64 %rd3, twice;
mov.u64 %rd4, 8;`;
  const lines = [["%rd4", "%rd3"], ["%rd3", "%rd4"]].map(([first, second]) => {
    return faultOf(`${body}\n${call(first!)}\n${call(second!)}`, double).line;
  });
  assertEquals(lines[1]! - lines[0]!, 1);
});

test("calls by address and functions do not multiply the code", () => {
  const bytesOf = (calls: number, functions: number) => {
    const all = upTo(functions, (index) => index);
    const ptx = `.version 7.0
.target sm_60
.address_size 64
${all.map((index) => `.func f${index}() { ret; }`).join("\n")}
.global .u64 table[${functions}] = {${all.map((index) => `f${index}`).join()}};
.visible .entry test() {
  .reg .b64 %rd;
  P: .callprototype _ ();
  ld.global.u64 %rd, [table];
${upTo(calls, () => "  call %rd, (), P;").join("\n")}
  ret;
}`;
    return compilePtx(ptx).wasm.length;
  };
  const [neither, moreCalls, moreFunctions, both] = [bytesOf(1, 1), bytesOf(50, 1), bytesOf(1, 50), bytesOf(50, 50)];
  // Some indices take a byte more.
  assert(both - neither < 1.1 * (moreCalls - neither + moreFunctions - neither));
});

test("a prototype with too many parameters does not reach other threads' memory", () => {
  const fault = (): number[] =>
    runThreads(
      `
  .param .align 16 .b8 large[60000]; .param .b32 b;
  .local .b32 own;
  st.local.u32 [own], %r0;
  st.param.b32 [large], %r0;
  st.param.b32 [large+59996], -1;
  mov.u64 %rd3, twice;
  mov.u32 %r7, %r0;
  bar.sync 0;
  P: .callprototype (.param .b32 _) _ (.param .align 16 .b8 _[60000]);
  call (b), %rd3, (large), P;
  bar.sync 0;
  ld.local.u32 %r4, [own];
  mad.lo.u32 %r4, %r7, 1000, %r4;
  st.global.u32 [%rd2], %r4;`,
      { block: [8, 1, 1], declarations: double },
    );
  assertEquals(fault(), upTo(8, (thread) => thread * 1001));
});

test("aliases and weak names resolve to their functions", () => {
  const declarations = `
.func (.param .b32 r) later(.param .b32 a);
.extern .func (.param .b32 r) unused(.param .b32 a, .param .b64 b);
.weak .func (.param .b32 r) weak(.param .b32 a) { .reg .b32 %r; ld.param.u32 %r, [a]; add.u32 %r, %r, 7; st.param.b32 [r], %r; ret; }
.visible .func (.param .b32 r) later(.param .b32 a) { .reg .b32 %r; ld.param.u32 %r, [a]; add.u32 %r, %r, 5; st.param.b32 [r], %r; ret; }
.func (.param .b32 r) other(.param .b32 a);
.alias other, later;`;
  const written = runThreads(
    `
  call (%r3), later, (%r0);
  call (%r4), weak, (%r3);
  call (%r5), other, (%r4);
  st.global.u32 [%rd2], %r5;`,
    { ...few, declarations },
  );
  assertEquals(written, [17, 18, 19]);
});

test("recursive functions have their own registers in each call", () => {
  const declarations = `
.func (.param .b32 r) odd(.param .b32 n);
.func (.param .b32 r) fibonacci(.param .b32 n) {
  .reg .b32 %r<6>; .reg .pred %p;
  ld.param.u32 %r1, [n];
  mov.u32 %r4, %r1;
  setp.lt.u32 %p, %r1, 2;
  @%p bra DONE;
  sub.u32 %r2, %r1, 1;
  sub.u32 %r3, %r1, 2;
  call (%r4), fibonacci, (%r2);
  call (%r5), fibonacci, (%r3);
  add.u32 %r4, %r4, %r5;
DONE:
  st.param.b32 [r], %r4;
  ret;
}
.func (.param .b32 r) even(.param .b32 n) {
  .reg .b32 %r<6>; .reg .pred %p;
  ld.param.u32 %r1, [n];
  setp.eq.u32 %p, %r1, 0;
  st.param.b32 [r], 1;
  @%p ret;
  sub.u32 %r2, %r1, 1;
  call (%r3), odd, (%r2);
  st.param.b32 [r], %r3;
}
.func (.param .b32 r) odd(.param .b32 n) {
  .reg .b32 %r<6>; .reg .pred %p;
  ld.param.u32 %r1, [n];
  setp.eq.u32 %p, %r1, 0;
  st.param.b32 [r], 0;
  @%p ret;
  sub.u32 %r2, %r1, 1;
  call (%r3), even, (%r2);
  st.param.b32 [r], %r3;
  ret;
}`;
  const written = runThreads(
    `
  call (%r3), fibonacci, (%r0);
  call (%r4), even, (%r0);
  mad.lo.u32 %r3, %r3, 10, %r4;
  st.global.u32 [%rd2], %r3;`,
    { block: [20, 1, 1], declarations },
  );
  const fibonacci = (n: number): number => n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
  assertEquals(written, upTo(20, (thread) => fibonacci(thread) * 10 + Number(thread % 2 === 0)));
});

/** Calls itself as often as it is told, or endlessly, with some local memory each time. */
const deep = `
.func (.param .b32 r) deep(.param .b32 n) {
  .reg .b32 %r<6>; .reg .pred %p;
  .local .align 16 .b8 frame[64];
  ld.param.u32 %r1, [n];
  st.local.u32 [frame+60], %r1;
  setp.eq.u32 %p, %r1, 0;
  st.param.b32 [r], 0;
  @%p ret;
  sub.u32 %r2, %r1, 1;
  call (%r3), deep, (%r2);
  ld.local.u32 %r4, [frame+60];
  add.u32 %r3, %r3, %r4;
  st.param.b32 [r], %r3;
  ret;
}`;

test("recursion is limited by the stack", () => {
  const body = `
  .local .b32 own;
  st.local.u32 [own], %r0;
  ld.global.u32 %r5, [%rd1];
  add.u32 %r5, %r5, %r0;
  bar.sync 0;
  call (%r3), deep, (%r5);
  ld.local.u32 %r4, [own];
  mad.lo.u32 %r3, %r4, 1000000, %r3;
  st.global.u32 [%rd2], %r3;`;
  const options = { block: [4, 1, 1], declarations: deep } as const;
  assertEquals(
    runThreads(body, { ...options, input: [100] }),
    upTo(4, (thread) => thread * 1000000 + (100 + thread) * (101 + thread) / 2),
  );
  for (const depth of [1000, 5000, 0xffffffff - 4]) {
    const fault = assertThrows(() => runThreads(body, { ...options, input: [depth] }), Fault) as Fault;
    assertEquals(fault.kind, faultKind.stackOverflow);
    assert(fault.line > 3 && fault.line < 20, String(fault.line));
  }
});

test("alloca allocates memory of the thread until the function returns", () => {
  const declarations = `
.func (.param .b64 place) use(.param .b32 size) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u32 %r1, [size];
  alloca.u32 %r2, %r1;
  st.local.u32 [%r2], 77;
  cvt.u64.u32 %rd1, %r2;
  st.param.u64 [place], %rd1;
  ret;
}`;
  const written = runThreads(
    `
  .local .b32 own;
  st.local.u32 [own], 5;
  add.u32 %r3, %r0, 20;
  cvt.u64.u32 %rd3, %r3;
  alloca.u64 %rd4, %rd3, 16;
  stacksave.u64 %rd5;
  alloca.u64 %rd6, 100;
  st.local.u32 [%rd4+16], %r0;
  st.local.u32 [%rd6+96], 9;
  call (%rd7), use, (%r3);
  call (%rd8), use, (8);
  bar.sync 0;
  ld.local.u32 %r4, [%rd4+16];
  ld.local.u32 %r5, [%rd6+96];
  stackrestore.u64 %rd5;
  alloca.u64 %rd9, 8;
  setp.eq.u64 %p1, %rd7, %rd8;
  setp.eq.u64 %p2, %rd9, %rd6;
  cvta.local.u64 %rd10, %rd4;
  and.b64 %rd10, %rd10, 15;
  setp.eq.u64 %p3, %rd10, 0;
  setp.gt.u64 %p4, %rd7, %rd6;
  ld.local.u32 %r6, [own];
  mad.lo.u32 %r4, %r4, 10, %r5;
  mad.lo.u32 %r4, %r4, 10, %r6;
  @%p1 add.u32 %r4, %r4, 10000; @%p2 add.u32 %r4, %r4, 20000; @%p3 add.u32 %r4, %r4, 40000; @%p4 add.u32 %r4, %r4, 80000;
  st.global.u32 [%rd2], %r4;`,
    { block: [4, 1, 1], declarations },
  );
  assertEquals(written, upTo(4, (thread) => thread * 100 + 95 + 150000));
});

test("alloca faults if there is no room, whatever the size", () => {
  for (const size of ["100000", "0xffffffff", "0xfffffffffffffff0", "0xffffffffffffffff", "0x7fffffffffffffff"]) {
    const fault = faultOf(`mov.u64 %rd3, ${size};\nalloca.u64 %rd4, %rd3;\nst.local.u32 [%rd4], 1;`, "");
    assertEquals([fault.kind, fault.line - firstBodyLine], [faultKind.stackOverflow, 12], size);
  }
  const often = faultOf("LOOP:\nalloca.u32 %r3, 64;\nbra LOOP;", "");
  assertEquals(often.kind, faultKind.stackOverflow);
});

test("a stack pointer that was never saved does not reach others' memory", () => {
  const body = `
  .local .align 16 .b8 frame[256];
  alloca.u64 %rd4, 64;
  st.local.u32 [frame], %r0;
  st.local.u32 [frame+4], %r0;
  mov.u32 %r7, %r0;
  ld.global.s32 %rd3, [%rd1];
  bar.sync 0;
  setp.eq.u32 %p1, %r0, 2;
  @!%p1 bra OVER;
  stackrestore.u64 %rd3;
  call (%r4), twice, (-1);
OVER:
  bar.sync 0;
  ld.local.u32 %r8, [frame];
  ld.local.u32 %r9, [frame+4];
  mad.lo.u32 %r8, %r8, 10, %r9;
  mad.lo.u32 %r8, %r7, 100, %r8;
  selp.u32 %r8, 7, %r8, %p1;
  st.global.u32 [%rd2], %r8;`;
  const options = { block: [4, 1, 1], declarations: double } as const;
  const { localBytes } = compilePtx(threadsModule(body, options)).kernels.get("test")!;
  for (const place of [0, -localBytes, -2 * localBytes, localBytes, 0x7fffffff, -0x80000000, -65536, -1]) {
    const written = runThreads(body, { ...options, input: [place] });
    assertEquals(written, upTo(4, (thread) => thread === 2 ? 7 : 111 * thread), String(place));
  }
});

test("a function that writes past its frame only reaches its thread's local memory", () => {
  // Writes all memory that it may write above and below its own frame. Its callers' registers must stay intact.
  const declarations = `
.func spoil() {
  .reg .b64 %rd<5>; .reg .pred %p;
  .local .b32 own;
  mov.u64 %rd1, 0;
LOOP:
  st.local.u32 [%rd1], -1;
  add.u64 %rd1, %rd1, 4;
  setp.lt.u64 %p, %rd1, 48;
  @%p bra LOOP;
  ret;
}`;
  const written = runThreads(
    `
  .local .align 16 .b8 frame[32];
  mad.lo.u32 %r3, %r0, 3, 1;
  cvt.u64.u32 %rd3, %r3;
  setp.eq.u32 %p1, %r0, 1;
  call spoil;
  bar.sync 0;
  cvt.u32.u64 %r4, %rd3;
  mad.lo.u32 %r4, %r4, 100, %r3;
  @%p1 add.u32 %r4, %r4, 10000;
  st.global.u32 [%rd2], %r4;`,
    { ...few, declarations },
  );
  assertEquals(written, upTo(3, (thread) => (thread * 3 + 1) * 101 + (thread === 1 ? 10000 : 0)));
  const fault = faultOf(".local .b8 frame[32];\ncall spoil;", declarations.replace("%rd1, 48", "%rd1, 100000"));
  assertEquals(fault.kind, faultKind.illegalAddress);
});

const vprintf = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);";

const refused: readonly [declarations: string, body: string, line: number, message: RegExp, part?: RefusedPart][] = [
  [double, "\ncall (%r1), twice, (%r1, %r2);", 1, /it has 2 arguments, and the function takes 1/],
  [double, "\n\ncall (%r1), twice;", 2, /it has 0 arguments, and the function takes 1/],
  [double, "call twice, (%r1);", 0, /it has 0 results, and the function takes 1/],
  [double, "call (%r1, %r2), twice, (%r1);", 0, /it has 2 results/],
  [double, "call (%r1), twice, (%rd1);", 0, /%rd1 is "\.b64", where "\.b32" is needed/],
  [double, "call (%rd2), twice, (%r1);", 0, /%rd2 is "\.b64"/],
  [double, ".param .b64 a;\ncall (%r1), twice, (a);", 1, /"a" has 8 bytes, and the function takes 4/],
  [double, ".param .b64 a;\ncall (a), twice, (%r1);", 1, /"a" has 8 bytes, and the function takes 4/],
  [
    double,
    ".local .b32 a;\ncall (%r1), twice, (a);",
    1,
    /"a" is not a variable of the function in "\.param"/,
  ],
  [double, "call (%r1), twice, (out);", 0, /"out" is not a variable of the function in "\.param"/],
  [double, "call (%r1), twice, ([out]);", 0, /./],
  [double, "call (%r1), none, (%r1);", 0, /cannot find "none": it is not declared/],
  ["", "call test, (%rd0, %rd1);", 0, /"test" is a kernel/],
  ["", "P: .callprototype _ (.param .b32 a);\ncall %rd1, (%r1, %r2), P;", 1, /it has 2 arguments/],
  ["", "P: .callprototype _ (.param .b32 a);\ncall %rd1, (%rd2), P;", 1, /%rd2 is "\.b64"/],
  [
    ".extern .func f();",
    "call f;",
    0,
    /the module declares "f" but does not define it, and the device has no such/,
    "kernel",
  ],
  [
    ".extern .func (.param .b64 r) _Znwm(.param .b64 a);",
    "call (%rd2), _Znwm, (8);",
    0,
    /CUDA's headers define new and delete by malloc and free/,
    "kernel",
  ],
  [
    ".extern .func (.param .b32 r) malloc(.param .b32 a);",
    "call (%r2), malloc, (8);",
    0,
    /its parameters are not those that CUDA declares/,
    "kernel",
  ],
  [
    ".extern .func (.param .b32 r) cudaDeviceSynchronize();",
    "call (%r1), cudaDeviceSynchronize;",
    0,
    /dynamic para/,
    "kernel",
  ],
  [
    ".extern .func (.param .b64 r) cudaGetParameterBuffer(.param .b64 a, .param .b64 b);",
    "call (%rd2), cudaGetParameterBuffer, (8, 8);",
    0,
    /kernels cannot launch kernels: dynamic parallelism is not supported/,
    "kernel",
  ],
  [
    ".extern .func (.param .b32 r) cudaLaunchDeviceV2(.param .b64 a, .param .b64 b);",
    "call (%r1), cudaLaunchDeviceV2, (%rd2, 0);",
    0,
    /dynamic parallelism is not supported/,
    "kernel",
  ],
  [
    ".extern .func (.param .f32 r) __nv_sinf(.param .f32 a);",
    "call (%f1), __nv_sinf, (%f1);",
    0,
    /libdevice/,
    "kernel",
  ],
  [
    ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b32 b);",
    "call (%r1), vprintf, (%rd1, %r1);",
    0,
    /its parameters are not those that CUDA declares/,
    "kernel",
  ],
  [
    ".extern .func (.param .b64 r) vprintf(.param .b64 a, .param .b64 b);",
    "call (%rd1), vprintf, (%rd1, %rd1);",
    0,
    /its parameters are not those that CUDA declares/,
    "kernel",
  ],
  [
    ".extern .func (.param .b32 r) vprintf(.param .f64 a, .param .f64 b);",
    ".param .f64 a; call (%r1), vprintf, (a, a);",
    0,
    /its parameters are not those that CUDA declares/,
    "kernel",
  ],
  // Printing finds its result and arguments in the frame only. Anywhere else, it would access others' memory.
  [
    `${vprintf} .global .u32 g;`,
    "call (g), vprintf, (%rd1, %rd1);",
    0,
    /"g" is not a variable of the function in "\.param"/,
  ],
  [
    `${vprintf} .global .u64 g;`,
    "call (%r1), vprintf, (g, %rd1);",
    0,
    /"g" is not a variable of the function in "\.param"/,
  ],
  [`${vprintf}`, ".param .b32 a; call (%r1), vprintf, (a, %rd1);", 0, /"a" has 4 bytes, and the function takes 8/],
  [
    ".func f(.param .b32 a[4]) { ret; }",
    "call f, (%r1);",
    0,
    /"a" has 16 bytes, so a variable in "\.param" must be passed/,
  ],
  [
    ".func (.param .b32 a[4]) f() { ret; }",
    "call (%r1), f;",
    0,
    /"a" has 16 bytes, so a variable in "\.param" must be passed/,
  ],
];

test("invalid calls are refused with their line", () => {
  for (const [declarations, body, line, message, expected = "module"] of refused) {
    const [at, text, part] = refusal(body, declarations);
    assert(message.test(text) && !text.endsWith("."), `${body}: ${text}`);
    assertEquals([at, part], [line, expected], `${body}: ${text}`);
  }
});

test("accesses to parameters stay within their variables", () => {
  const declarations = ".func f(.param .b32 x) { .reg .b32 %r; LOAD ret; }";
  for (const offset of ["+4", "+2", "+-4"]) {
    const [line, text] = refusal("call f, (%r1);", declarations.replace("LOAD", `ld.param.u32 %r, [x${offset}];`));
    assert(line < 0 && /"ld\.param\.u32": the parameter "x" has only 4 bytes$/.test(text), text);
  }
  assert(/the parameter "a" has only 4 bytes$/.test(refusal(".param .b32 a; st.param.b32 [a+4], 1;", "")[1]));
  const huge = ".func f(.param .b8 x[2000000000]) { ret; }";
  assert(/cannot pass "x": a function takes and returns at most 65536 bytes$/.test(refusal("call f, (%r1);", huge)[1]));
  // Misaligned within the frame, far from the kernel's own parameters.
  const fault = faultOf(".param .align 4 .b8 a[8]; st.param.b32 [a+2], 1;", "");
  assertEquals([fault.kind, fault.address], [faultKind.misalignedAddress, 0x7a02_0000_0002n]);
});

test("call chains may be as long as a module has functions", { long: true }, () => {
  const count = 12_000;
  const functions = upTo(
    count,
    (index) =>
      `.func (.param .b32 r) f${index}() { .reg .b32 %r; ${
        index === 0 ? "mov.u32 %r, 5;" : `call (%r), f${index - 1};`
      } st.param.b32 [r], %r; ret; }`,
  );
  assert(WebAssembly.validate(
    compilePtx(testModule(`call (%r1), f${count - 1};`).replace(".visible", `${functions.join("\n")}\n.visible`)).wasm,
  ));
});

test("invalid functions are refused with their line", () => {
  for (
    const [declarations, message] of [
      [".func f() { ret; }\n.func f() { ret; }", /Line 5: cannot define the function "f" twice/],
      ["\n.alias f, g;", /Line 5: cannot find "g": it is not declared/],
    ] as const
  ) {
    const error = assertThrows(
      () => compilePtx(testModule("").replace(".visible", `${declarations}\n.visible`)),
      PtxError,
    );
    assert(message.test(error.message), error.message);
  }
  for (
    const [declaration, message, expected] of [
      [".func f(.param .b8 a[]) { ret; }", /variadic parameters are not supported/, "kernel"],
      [".func f() { .local .align 131072 .b8 a[64]; ret; }", /cannot align "a" to more than 65536 bytes/, "kernel"],
      [".func f() { frobnicate; }", /"frobnicate" is not known/, "module"],
    ] as const
  ) {
    const [line, text, part] = refusal("call f;", declaration);
    assert(message.test(text), text);
    assert(line < 0, text);
    assertEquals(part, expected, text);
  }
});
