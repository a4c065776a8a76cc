/** Strong loads and stores, which other threads must see: what they compile to, and kernels that run on two threads. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { faultKind } from "../../src/software/abi/addresses.ts";
import { compilePtx } from "../../src/software/compiler/compile.ts";
import type { InstructionForm } from "../../src/software/compiler/instructions/instruction_form.ts";
import { allInstructions } from "../../src/software/compiler/instructions/instructions.ts";
import { typeNamed } from "../../src/ptx/instructions/scalar_types.ts";
import { atomicOp, memoryOp } from "../../src/software/compiler/webassembly/opcodes.ts";
import { isLong, someOf } from "../support/test.ts";
import { allocate, Fault, load, runBody, testModule } from "./compiler_device.ts";
import { runOnThreads } from "./kernel_threads.ts";

/** How often each memory instruction of WebAssembly occurs in some code. */
type Counts = Readonly<Record<string, number>>;

/** Counts the loads, stores and atomic instructions of a module, by the names of `opcodes.ts`. */
function countAccesses(wasm: Uint8Array): Counts {
  const names = new Map<string, string>([
    ...Object.entries(memoryOp).map(([name, [opcode]]) => [`${opcode}`, name] as const),
    ...Object.entries(atomicOp).map(([name, [opcode]]) => [`fe ${opcode}`, name] as const),
    ["fd 0", "v128Load"],
    ["fd 11", "v128Store"],
  ]);
  const counts: Record<string, number> = {};
  let at = 8;
  const number = () => {
    let value = 0, shift = 1;
    for (; wasm[at]! >= 0x80; shift *= 128) value += (wasm[at++]! & 0x7f) * shift;
    return value + wasm[at++]! * shift;
  };
  const skipNumbers = (count: number) => {
    for (; count > 0; count--) number();
  };
  const readInstruction = () => {
    const opcode = wasm[at++]!;
    const prefixed = opcode >= 0xfc ? number() : undefined;
    const name = names.get(prefixed === undefined ? `${opcode}` : `${opcode.toString(16)} ${prefixed}`);
    if (name !== undefined) counts[name] = (counts[name] ?? 0) + 1;
    if (opcode === 0xfc) skipNumbers(prefixed === 11 ? 1 : 0);
    else if (opcode === 0xfe) skipNumbers(prefixed === 3 ? 1 : 2);
    else if (opcode === 0xfd) {
      if (prefixed! <= 11) skipNumbers(2);
      else if (prefixed! <= 13) at += 16;
      else if (prefixed! >= 21 && prefixed! <= 34) at++;
    } else if (opcode >= 0x28 && opcode <= 0x3e) skipNumbers(2);
    else if (opcode === 0x0e) skipNumbers(number() + 1);
    else if (opcode === 0x43 || opcode === 0x44) at += opcode === 0x43 ? 4 : 8;
    else if (opcode >= 0x02 && opcode <= 0x04) at++;
    else if ([0x0c, 0x0d, 0x10, 0x20, 0x21, 0x22, 0x23, 0x41, 0x42].includes(opcode)) number();
  };
  while (at < wasm.length) {
    const section = wasm[at++]!;
    const end = number() + at;
    if (section === 10) {
      for (let functions = number(); functions > 0; functions--) {
        const bodyEnd = number() + at;
        for (let locals = number(); locals > 0; locals--) skipNumbers(2);
        while (at < bodyEnd) readInstruction();
        assertEquals(at, bodyEnd, "An instruction was not decoded");
      }
    }
    at = end;
  }
  return counts;
}

/** Counts the instructions that the code of one kernel has in addition to that of another. */
function difference(more: Counts, less: Counts): Counts {
  const names = [...new Set([...Object.keys(more), ...Object.keys(less)])];
  return Object.fromEntries(
    names.map((name) => [name, (more[name] ?? 0) - (less[name] ?? 0)] as const).filter(([, count]) => count !== 0),
  );
}

/** Returns how many of the counted instructions have a matching name. */
function sumOf(counts: Counts, pattern: RegExp): number {
  return Object.entries(counts).reduce((sum, [name, count]) => pattern.test(name) ? sum + count : sum, 0);
}

/** The start of every body: one access of each kind, so that more of them load nothing else from the launch record. */
const prelude = `.reg .b128 %q<9>;
  .shared .align 16 .b8 sm[64];
  .local .align 16 .b8 lo[64];
  mov.u32 %r0, sm;
  ld.u32 %r1, [%rd1]; ld.global.u32 %r1, [%rd1]; ld.shared.u32 %r1, [%r0]; ld.shared::cluster.u32 %r1, [%r0];
  ld.local.u32 %r1, [lo];`;

/** Counts the accesses of a kernel with a body, compiled for blocks of one thread. */
function countsOf(body: string): Counts {
  const { kernels, wasm } = compilePtx(testModule(`${prelude}\n${body}`));
  const forLaunch = kernels.get("test")!.compileForLaunch({ block: [1, 1, 1], shared: new Map() });
  return countAccesses(forLaunch?.wasm ?? wasm);
}

/** The registers that an access of the type loads or stores. */
function valueOf(type: string, elements: number, first = 3): string {
  if (type === "b128") return `%q${first}`;
  const { name, bits } = typeNamed(type);
  const prefix = name === "f32" ? "f" : name === "f64" ? "fd" : bits === 64 ? "rd" : bits === 16 ? "h" : "r";
  const list = Array.from({ length: elements }, (_, index) => `%${prefix}${first + index}`).join(", ");
  return elements === 1 ? list : `{${list}}`;
}

/** A memory access: the text of the instruction, and the size and number of its elements. */
interface Access {
  readonly text: string;
  readonly isShared: boolean;
  readonly bits: number;
  readonly elements: number;
}

/**
 * Writes accesses of a form: with each type and vector, and with each choice of every other modifier. Leaves out
 * parameters and constants, of which there is no memory here.
 */
function accessesOf(form: InstructionForm): Access[] {
  const slots = form.slots.map(({ name, choices, optional }) => {
    const possible = [...choices].filter((choice) => name !== "space" || !/const|param/.test(choice));
    return { name, choices: optional ? [undefined, ...possible] : possible };
  });
  const first = new Map(slots.map(({ name, choices }) => [name, choices[0]]));
  const types = slots.find(({ name }) => name === "type")?.choices ?? ["b128"];
  const vectors = slots.find(({ name }) => name === "vector")?.choices ?? [undefined];
  const variants = [
    ...types.flatMap((type) => vectors.map((vector) => new Map(first).set("type", type).set("vector", vector))),
    ...slots.flatMap(({ name, choices }) => choices.map((choice) => new Map(first).set(name, choice))),
  ];
  return variants.flatMap((choices): Access[] => {
    const type = choices.get("type") ?? "b128", elements = Number(choices.get("vector")?.slice(1) ?? 1);
    const bits = type === "b128" ? 128 : typeNamed(type).bits;
    if (bits * elements > 128) return [];
    const space = choices.get("space") ?? "generic", isShared = space.startsWith("shared");
    const value = valueOf(type, elements);
    const operands = form.syntax.slice(form.syntax.indexOf(" ") + 1).split(", ").map((operand) => {
      if (operand === "policy") return "%rd2";
      if (operand === "[mbar]") return "[%r0]";
      if (operand !== "[a]") return value;
      return isShared ? "[%r0]" : space === "local" ? "[lo]" : "[%rd1]";
    });
    const modifiers = slots.flatMap(({ name }) => choices.get(name) ?? []);
    return [{ text: `${[form.opcode, ...modifiers].join(".")} ${operands.join(", ")};`, isShared, bits, elements }];
  });
}

function formsOf(...opcodes: readonly string[]): InstructionForm[] {
  return allInstructions().filter(({ opcode, emit }) => opcodes.includes(opcode) && emit !== undefined);
}

const without = countsOf("");

/** Returns the loads, stores and atomic instructions that accesses compile to. */
function compiledTo(accesses: readonly Access[]): Counts {
  return difference(countsOf(accesses.map(({ text }) => text).join("\n")), without);
}

test("exactly the strong loads and stores of the instruction table are atomic in WebAssembly", () => {
  let strongForms = 0;
  for (const form of formsOf("ld", "ldu", "st")) {
    const isStrong = form.slots.some(({ name }) => ["volatile", "semantics", "mmio"].includes(name));
    const accesses = accessesOf(form);
    const expected: Record<string, number> = {};
    const expect = (name: string, count: number) => expected[name] = (expected[name] ?? 0) + count;
    for (const { isShared, bits, elements } of isStrong ? accesses : []) {
      const narrow = bits === 8 ? "8" : bits === 16 ? "16" : "";
      const operation = form.hasResult ? `Load${narrow}${narrow && "U"}` : `Store${narrow}`;
      expect(`${bits >= 64 ? "i64" : "i32"}Atomic${operation}`, bits === 128 ? 2 : elements);
      if (bits < 128 || isShared) continue;
      // A lock is acquired and released.
      expect("i32AtomicCompareExchange", 1);
      expect("i32AtomicStore", 1);
    }
    const counts = compiledTo(accesses);
    const atomics = Object.entries(counts).filter(([name]) => name.includes("Atomic"));
    assertEquals(Object.fromEntries(atomics), expected, form.syntax);
    const plain = isStrong ? 0 : accesses.reduce((sum, { bits, elements }) => sum + (bits === 128 ? 2 : elements), 0);
    assertEquals(sumOf(counts, /^(?!v128)[if]\d+(Load|Store)/), plain, form.syntax);
    if (isStrong) strongForms++;
  }
  assert(strongForms > 20, `${strongForms} strong forms`);
});

test("atom and red are one atomic instruction for each element, and plain in shared memory", () => {
  for (const form of formsOf("atom", "red")) {
    const accesses = accessesOf(form);
    const elementsOf = (counted: (access: Access) => boolean) =>
      accesses.filter(counted).reduce((sum, { elements }) => sum + elements, 0);
    const counts = compiledTo(accesses);
    const exchanges = sumOf(counts, /Atomic(Add|And|Or|Xor|(Compare)?Exchange)/);
    assertEquals(exchanges, elementsOf(({ isShared }) => !isShared), form.syntax);
    assertEquals(sumOf(counts, /^i\d+Store/), elementsOf(({ isShared, bits }) => isShared && bits < 128), form.syntax);
  }
});

test("a strong access to a variable that no other thread can access is plain", () => {
  const weak = countsOf("ld.u32 %r1, [lo]; st.u32 [lo], %r1;");
  const strong = countsOf("ld.volatile.u32 %r1, [lo]; st.relaxed.gpu.u32 [lo], %r1;");
  assertEquals(difference(strong, weak), {});
});

test("a gang loads and stores the value of each thread atomically", () => {
  for (const width of [8, 32] as const) {
    for (const type of ["u32", "f32", "f64"] as const) {
      const bytes = Number(type.slice(1)) / 8;
      const copy = (loaded: string, stored: string): Counts => {
        const register = valueOf(type, 1);
        const ptx = testModule(`
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, ${bytes}; add.u64 %rd8, %rd1, %rd2; add.u64 %rd9, %rd0, %rd2;
  ld.${loaded}.${type} ${register}, [%rd8]; st.${stored}.${type} [%rd9], ${register};`);
        const source = allocate(bytes * width), out = allocate(bytes * width);
        source.bytes.forEach((_, index) => source.bytes[index] = 3 * index + 1);
        load(ptx, { gangWidth: width }).run("test", {
          block: [width, 1, 1],
          parameters: [{ type: "u64", value: out.address }, { type: "u64", value: source.address }],
        });
        assertEquals(out.bytes, source.bytes, `${loaded}.${type}`);
        return countAccesses(compilePtx(ptx, { gangs: "always" }).kernels.get("test")!.compileGangs(width)!.wasm);
      };
      const weak = copy("global", "global");
      // Threads access memory one by one where the check of the whole gang fails, and after they have left the gang.
      const alone = 2, parts = width * bytes / 16;
      const [atomic, plain] = [`i${8 * bytes}Atomic`, type.replace("u", "i")];
      const expected = {
        ...{ [`${atomic}Load`]: width + alone, [`${atomic}Store`]: width + alone },
        ...{ [`${plain}Load`]: -alone, [`${plain}Store`]: -alone, v128Load: -parts, v128Store: -parts },
      };
      for (const order of ["volatile", "relaxed.gpu", "acquire.sys", "mmio.relaxed.sys"]) {
        const strong = copy(`${order}.global`, `${order.replace("acquire", "release")}.global`);
        assertEquals(difference(strong, weak), expected, `${order}.${type} in gangs of ${width}`);
      }
    }
  }
});

test("strong accesses through generic addresses reach every kind of memory", () => {
  const lines = ["st.volatile.u16 [%rd3+2], %r5; ld.acquire.gpu.s16 %r6, [%rd3+2]; st.global.u32 [%rd0+OUT], %r6;"];
  const body = ["%rd1", "sm", "lo"].map((place, index) => {
    const space = place === "sm" ? "shared" : "local";
    const address = index === 0 ? "mov.u64 %rd3, %rd1;" : `mov.u64 %rd3, ${place}; cvta.${space}.u64 %rd3, %rd3;`;
    return `${address}\n${lines.join("\n").replace("OUT", String(4 * index))}`;
  });
  const out = runBody(
    `${prelude} mov.u32 %r5, 0x1fffe;\n${body.join("\n")}`,
    new DataView(new ArrayBuffer(64)),
    12,
  );
  assertEquals([0, 4, 8].map((offset) => out.getInt32(offset, true)), [-2, -2, -2]);
});

test("a misaligned strong access is the fault that a weak one is", () => {
  const pointers = `add.u64 %rd8, %rd1, 1; add.u32 %r8, %r0, 1; cvt.u64.u32 %rd7, %r8; cvta.shared.u64 %rd7, %rd7;`;
  for (const [type, elements] of [["u16", 1], ["f32", 1], ["b64", 1], ["u8", 2], ["f32", 2], ["b128", 1]] as const) {
    const accessed = elements > 1 ? `v${elements}.${type}` : type, value = valueOf(type, elements);
    for (const [space, address] of [["global.", "%rd8"], ["", "%rd8"], ["shared.", "%r8"], ["", "%rd7"]] as const) {
      for (
        const text of [
          `ld.volatile.${space}${accessed} ${value}, [${address}];`,
          `st.volatile.${space}${accessed} [${address}], ${value};`,
        ]
      ) {
        const run = () => runBody(`${prelude}\n${pointers}\n${text}`, new DataView(new ArrayBuffer(64)), 8);
        assertEquals(assertThrows(run, Fault).kind, faultKind.misalignedAddress, text);
      }
    }
  }
});

/** How often a kernel that polls is called before another thread stores: so often that engines have optimized it. */
const leastCalls = 2 ** 13;

test("a kernel sees another thread's store between two strong loads, and its stores are seen while it runs", async () => {
  const orders = ["volatile", "relaxed.cta", "relaxed.gpu", "acquire.sys", "mmio.relaxed.sys"];
  const types = ["u8", "s8", "b16", "s16", "u32", "f32", "s64", "f64", "v2.u8", "v4.u16", "v4.f32", "v2.b64", "b128"];
  const forms = someOf([
    ...orders.flatMap((order) => [`${order}.u32`, `${order}.global.b64`]),
    ...types.map((type) => `volatile.global.${type}`),
  ], 4);
  const kernels = forms.map((form, index) => {
    const [type, vector = "v1", element] = /(?:(v\d)\.)?(\w+)$/.exec(form)!;
    const [a, b] = [3, 7].map((first) => valueOf(element!, Number(vector.slice(1)), first)) as [string, string];
    const [lastOfA, lastOfB] = [a, b].map((value) => /%(\w+)\W*$/.exec(value)![1]!);
    const bits = element === "b128" ? 64 : Math.max(typeNamed(element!).bits, a.includes("%r") ? 32 : 16);
    return `.visible .entry poll${index}() {
  .reg .pred %p; .reg .b16 %h<11>; .reg .b32 %r<11>; .reg .b64 %rd<11>;
  .reg .f32 %f<11>; .reg .f64 %fd<11>; .reg .b128 %q<11>;
  ld.global.${type} ${a}, [one];
  st.${form.replace("acquire", "release")} [answer${index}], ${a};
LOOP:
  ld.${form} ${a}, [flag];
  ld.${form} ${b}, [flag];
  ${element === "b128" ? "mov.b128 {%rd1, _}, %q3; mov.b128 {%rd2, _}, %q7;" : ""}
  setp.eq.b${bits} %p, ${element === "b128" ? "%rd1, %rd2" : `%${lastOfA}, %${lastOfB}`};
  @%p bra LOOP;
  ret;
}`;
  });
  const variables = [
    ".global .align 16 .b32 one[4] = {0x01010101, 0x01010101, 0x01010101, 0x01010101};",
    ".global .align 16 .b32 flag[4];",
    ...forms.map((_, index) => `.global .align 16 .b32 answer${index}[4];`),
  ];
  const ptx = `.version 8.4\n.target sm_90\n.address_size 64\n${[...variables, ...kernels].join("\n")}`;
  await runOnThreads(ptx, [forms.map((_, index) => `poll${index}`)], ({ isOver, calls, bytes }) => {
    const flag = new Int32Array(bytes("flag").buffer, bytes("flag").byteOffset, 4);
    const hasAnswered = (index: number) => index < forms.length && Atomics.load(bytes(`answer${index}`), 0) !== 0;
    for (const index of forms.keys()) {
      // The kernel's loop ends only when this thread begins to count, so its answer is seen while it runs.
      while (!(hasAnswered(index) && calls() >= leastCalls) && !isOver());
      while (!hasAnswered(index + 1) && !isOver()) {
        for (let word = 0; word < 4; word++) Atomics.add(flag, word, 0x01010101);
      }
    }
  });
});

test("two threads never see a half of another thread's 128 bits", async () => {
  const times = isLong ? 5_000_000 : 200_000;
  // Each value that is stored has two equal halves. The counter's halves are a number and its negative.
  const ptx = `.version 8.4\n.target sm_90\n.address_size 64
.global .align 16 .b128 shared;
.global .align 16 .b128 counter;
.global .align 16 .b32 arrived[4];
.global .align 16 .b32 torn[4];
.visible .entry mix() {
  .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b128 %q<5>;
  mov.u32 %r1, ${times}; mov.u32 %r2, 0;
  atom.global.add.u32 %r3, [arrived], 1;
  cvt.u64.u32 %rd1, %r3; add.u64 %rd1, %rd1, 1; mul.lo.u64 %rd1, %rd1, 0x0101010101010101;
WAIT:
  ld.acquire.gpu.global.u32 %r3, [arrived]; setp.lt.u32 %p, %r3, 2; @%p bra WAIT;
LOOP:
  mov.b128 %q1, {%rd1, %rd1};
  atom.global.exch.b128 %q2, [shared], %q1; mov.b128 {%rd2, %rd3}, %q2;
  setp.ne.u64 %p, %rd2, %rd3; @%p add.u32 %r2, %r2, 1;
  add.u64 %rd1, %rd1, 0x0101010101010101; mov.b128 %q1, {%rd1, %rd1};
  st.relaxed.gpu.global.b128 [shared], %q1;
  ld.relaxed.gpu.global.b128 %q2, [shared]; mov.b128 {%rd2, %rd3}, %q2;
  setp.ne.u64 %p, %rd2, %rd3; @%p add.u32 %r2, %r2, 1;
COUNT:
  ld.volatile.global.b128 %q3, [counter]; mov.b128 {%rd4, %rd5}, %q3;
  add.u64 %rd6, %rd4, 1; sub.u64 %rd7, %rd5, 1; mov.b128 %q4, {%rd6, %rd7};
  atom.global.cas.b128 %q4, [counter], %q3, %q4; mov.b128 {%rd6, %rd7}, %q4;
  setp.ne.u64 %p, %rd4, %rd6; @%p bra COUNT;
  sub.u32 %r1, %r1, 1; setp.ne.u32 %p, %r1, 0; @%p bra LOOP;
  red.global.add.u32 [torn], %r2;
  ret;
}`;
  const { bytes } = await runOnThreads(ptx, [["mix"], ["mix"]]);
  const [torn, counter] = ["torn", "counter"].map((name) => new DataView(bytes(name).buffer, bytes(name).byteOffset));
  assertEquals(torn!.getInt32(0, true), 0);
  assertEquals([0, 8].map((half) => counter!.getBigInt64(half, true)), [BigInt(2 * times), BigInt(-2 * times)]);
});
