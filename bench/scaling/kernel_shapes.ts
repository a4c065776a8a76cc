/**
 * PTX of any length, in shapes on which compilers spend time in different stages.
 *
 * @module
 */

/** A way to grow a module. */
export interface KernelShape {
  readonly name: string;
  /** The lines of the kernel's body, or of the whole module. About `lines`. */
  write(lines: number): KernelText;
}

/** A module's text, and the kernel to launch. It takes a pointer and a count, and does nothing if the count is 0. */
export interface KernelText {
  readonly ptx: string;
  readonly kernel: string;
}

const header = ".version 9.0\n.target sm_75\n.address_size 64\n";
const registers = `.reg .pred %p<100000>;
.reg .b32 %r<200000>;
.reg .f32 %f<200000>;
.reg .b64 %rd<100000>;`;

/** The kernel `shape`, with the thread's index in %r1, the count in %r2, and the pointer to the thread's number in %rd1. */
function kernelOf(body: readonly string[], { functions = [] as readonly string[], name = "shape", last = "%r1" } = {}) {
  return [
    ...functions,
    `.visible .entry ${name}(.param .u64 a, .param .u32 n) {`,
    registers,
    "mov.u32 %r3, %ctaid.x;",
    "mov.u32 %r4, %ntid.x;",
    "mov.u32 %r5, %tid.x;",
    "mad.lo.s32 %r1, %r3, %r4, %r5;",
    "ld.param.u32 %r2, [n];",
    "setp.eq.s32 %p1, %r2, 0;",
    "@%p1 bra DONE;",
    "ld.param.u64 %rd2, [a];",
    "mul.wide.u32 %rd3, %r1, 4;",
    "add.s64 %rd1, %rd2, %rd3;",
    "ld.global.u32 %r6, [%rd1];",
    ...body,
    `st.global.u32 [%rd1], ${last};`,
    "DONE: ret;",
    "}",
  ].join("\n");
}

/** A kernel of repeated parts of `each` lines. `%r6` and the 40 numbers before `first` may be read by the first part. */
function repeated(
  lines: number,
  { each, write, ...options }: {
    each: number;
    write: (part: number, parts: number) => readonly string[];
    functions?: readonly string[];
    last?: (parts: number) => string;
  },
): KernelText {
  const parts = Math.max(1, Math.round(lines / each));
  const body: string[] = [];
  for (let part = 0; part < parts; part++) for (const line of write(part, parts)) body.push(line);
  const { functions, last } = options;
  return {
    ptx: header + kernelOf(body, { ...functions && { functions }, ...last && { last: last(parts) } }),
    kernel: "shape",
  };
}

/** All shapes, in the order of the table. */
export const kernelShapes: readonly KernelShape[] = [
  {
    name: "straight-line code",
    write: (lines) =>
      repeated(lines, {
        each: 2,
        write: (part) => [
          `add.s32 %r${2 * part + 10}, %r${part < 1 ? 6 : 2 * part + 9}, %r1;`,
          `xor.b32 %r${2 * part + 11}, %r${2 * part + 10}, %r${part < 20 ? 1 : 2 * part - 20};`,
        ],
        last: (parts) => `%r${2 * parts + 9}`,
      }),
  },
  {
    name: "unrolled hash",
    write: (lines) =>
      repeated(lines, {
        each: 8,
        // As nvcc writes it: every result in a register of its own.
        write: (part) => {
          const r = (index: number) => `%r${8 * part + 100 + index}`;
          const before = (index: number, parts: number) =>
            part < parts ? "%r6" : `%r${8 * (part - parts) + 100 + index}`;
          return [
            `shf.l.wrap.b32 ${r(0)}, ${before(7, 1)}, ${before(7, 1)}, 26;`,
            `shf.l.wrap.b32 ${r(1)}, ${before(7, 1)}, ${before(7, 1)}, 21;`,
            `xor.b32 ${r(2)}, ${r(0)}, ${r(1)};`,
            `lop3.b32 ${r(3)}, ${before(7, 1)}, ${before(7, 2)}, ${before(7, 3)}, 0xCA;`,
            `add.s32 ${r(4)}, ${r(2)}, ${r(3)};`,
            `add.s32 ${r(5)}, ${r(4)}, ${before(7, 16)};`,
            `add.s32 ${r(6)}, ${r(5)}, ${1000 + part};`,
            `add.s32 ${r(7)}, ${r(6)}, ${before(6, 4)};`,
          ];
        },
        last: (parts) => `%r${8 * parts + 99}`,
      }),
  },
  {
    name: "loads and stores",
    write: (lines) =>
      repeated(lines, {
        each: 4,
        write: (part) => [
          `add.s64 %rd${part + 10}, ${part % 16 === 0 ? "%rd2" : `%rd${part + 9}`}, 4;`,
          `ld.global.f32 %f${2 * part + 10}, [%rd${part + 10}];`,
          `fma.rn.f32 %f${2 * part + 11}, %f${2 * part + 10}, %f${part < 1 ? 10 : 2 * part + 9}, 0f3F800000;`,
          `st.global.f32 [%rd${part + 10}], %f${2 * part + 11};`,
        ],
      }),
  },
  {
    name: "branches of one value",
    write: (lines) =>
      repeated(lines, {
        each: 5,
        write: (part) => [
          `setp.eq.s32 %p${part + 10}, %r2, ${part + 2};`,
          `@%p${part + 10} bra L${part};`,
          `add.s32 %r${part + 10}, %r${part < 1 ? 6 : 6}, ${part};`,
          `add.s32 %r6, %r6, %r${part + 10};`,
          `L${part}:`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "divergent branches",
    write: (lines) =>
      repeated(lines, {
        each: 5,
        write: (part) => [
          `setp.eq.s32 %p${part + 10}, %r6, ${part + 2};`,
          `@%p${part + 10} bra L${part};`,
          `add.s32 %r${part + 10}, %r6, ${part};`,
          `xor.b32 %r6, %r6, %r${part + 10};`,
          `L${part}:`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "ladders of conditions",
    // Each condition leaves for the end, with registers that live until there.
    write: (lines) =>
      repeated(lines, {
        each: 4,
        write: (part) => [
          `add.s32 %r${part + 10}, %r${part < 1 ? 6 : part + 9}, 7;`,
          `setp.eq.s32 %p${part + 10}, %r${part + 10}, ${part};`,
          `@%p${part + 10} bra DONE;`,
          `add.s32 %r6, %r6, %r${Math.max(10, part - 30)};`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "successive loops",
    write: (lines) =>
      repeated(lines, {
        each: 6,
        write: (part) => [
          `mov.u32 %r${part + 10}, 0;`,
          `L${part}:`,
          `add.s32 %r6, %r6, %r${part + 10};`,
          `add.s32 %r${part + 10}, %r${part + 10}, 1;`,
          `setp.lt.s32 %p${part + 10}, %r${part + 10}, %r2;`,
          `@%p${part + 10} bra L${part};`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "nested loops",
    // Nests of 16 loops, one behind the other.
    write: (lines) =>
      repeated(lines, {
        each: 16 * 6,
        write: (part) => {
          const loops = Array.from({ length: 16 }, (_, depth) => 16 * part + depth);
          return [
            ...loops.flatMap((loop) => [
              `mov.u32 %r${loop + 10}, 0;`,
              `L${loop}:`,
              `add.s32 %r6, %r6, %r${loop + 10};`,
            ]),
            ...loops.toReversed().flatMap((loop) => [
              `add.s32 %r${loop + 10}, %r${loop + 10}, 1;`,
              `setp.lt.s32 %p${loop + 10}, %r${loop + 10}, %r2;`,
              `@%p${loop + 10} bra L${loop};`,
            ]),
          ];
        },
        last: () => "%r6",
      }),
  },
  {
    name: "one loop around branches",
    write: (lines) => {
      const { ptx, kernel } = repeated(lines, {
        each: 5,
        write: (part) => [
          ...part === 0 ? ["LOOP:"] : [],
          `setp.eq.s32 %p${part + 10}, %r2, ${part + 2};`,
          `@%p${part + 10} bra L${part};`,
          `add.s32 %r${part + 10}, %r6, ${part};`,
          `xor.b32 %r6, %r6, %r${part + 10};`,
          `L${part}:`,
        ],
        last: () => "%r6",
      });
      return {
        ptx: ptx.replace(
          "st.global.u32 [%rd1], %r6;",
          "setp.ne.s32 %p5, %r2, 1;\n@%p5 bra LOOP;\nst.global.u32 [%rd1], %r6;",
        ),
        kernel,
      };
    },
  },
  {
    name: "barriers",
    write: (lines) =>
      repeated(lines, {
        each: 5,
        write: (part) => [
          `add.s32 %r${3 * part + 10}, %r${part < 1 ? 6 : 3 * part + 9}, %r1;`,
          `xor.b32 %r${3 * part + 11}, %r${3 * part + 10}, %r${part < 20 ? 1 : 3 * part - 20};`,
          "bar.sync 0;",
          `add.s32 %r${3 * part + 12}, %r${3 * part + 11}, %r${3 * part + 10};`,
          `add.s32 %r6, %r6, %r${3 * part + 12};`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "shuffles",
    write: (lines) =>
      repeated(lines, {
        each: 4,
        write: (part) => [
          `add.s32 %r${3 * part + 10}, %r${part < 1 ? 6 : 3 * part + 9}, %r1;`,
          `shfl.sync.bfly.b32 %r${3 * part + 11}, %r${3 * part + 10}, 1, 31, -1;`,
          `add.s32 %r${3 * part + 12}, %r${3 * part + 11}, %r${3 * part + 10};`,
          `add.s32 %r6, %r6, %r${3 * part + 12};`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "calls of one function",
    write: (lines) =>
      repeated(lines, {
        each: 7,
        functions: [callee("callee")],
        write: (part) => callOf("callee", part),
        last: () => "%r6",
      }),
  },
  {
    name: "many functions",
    write: (lines) => {
      const count = Math.max(1, Math.round(lines / 17));
      return repeated(count * 7, {
        each: 7,
        functions: Array.from({ length: count }, (_, part) => callee(`callee${part}`)),
        write: (part) => callOf(`callee${part}`, part),
        last: () => "%r6",
      });
    },
  },
  {
    name: "many kernels",
    write: (lines) => {
      const count = Math.max(1, Math.round(lines / 25));
      const kernels = Array.from(
        { length: count },
        (_, index) =>
          kernelOf(["add.s32 %r6, %r6, 1;", "mul.lo.s32 %r7, %r6, %r6;"], { name: `shape${index}`, last: "%r7" }),
      );
      return { ptx: header + kernels.join("\n"), kernel: `shape${count - 1}` };
    },
  },
  {
    name: "one switch",
    write: (lines) => {
      const count = Math.max(2, Math.round(lines / 4));
      const labels = Array.from({ length: count }, (_, index) => `L${index}`);
      return {
        ptx: header + kernelOf([
          `TABLE: .branchtargets ${labels.join(",\n")};`,
          "brx.idx %r2, TABLE;",
          ...labels.flatMap((label, index) => [`${label}:`, `add.s32 %r6, %r6, ${index};`, "bra JOIN;"]),
          "JOIN:",
        ], { last: "%r6" }),
        kernel: "shape",
      };
    },
  },
  {
    name: "chains of predicates",
    write: (lines) =>
      repeated(lines, {
        each: 3,
        write: (part) => [
          `setp.lt.and.s32 %p${part + 10}, %r6, ${part}, %p${part < 1 ? 1 : part + 9};`,
          `@%p${part + 10} add.s32 %r${part + 10}, %r6, 3;`,
          `selp.b32 %r6, %r6, %r${part + 10}, %p${part + 10};`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "backward dependences",
    // Blocks in the text stand in the reverse order of execution, so that facts travel against the text.
    write: (lines) => {
      const count = Math.max(1, Math.round(lines / 4));
      const body = ["bra L0;"];
      for (let part = count - 1; part >= 0; part--) {
        body.push(
          `L${part}:`,
          `add.s32 %r${part + 11}, %r${part < 1 ? 6 : part + 10}, %r2;`,
          `add.f32 %f${part + 11}, %f${part < 1 ? 6 : part + 10}, 0f3F800000;`,
          `bra ${part === count - 1 ? "JOIN" : `L${part + 1}`};`,
        );
      }
      return { ptx: header + kernelOf([...body, "JOIN:"], { last: `%r${count + 10}` }), kernel: "shape" };
    },
  },
];

function callee(name: string): string {
  return `.func (.param .b32 result) ${name}(.param .b32 x) {
.reg .b32 %r<4>;
.reg .pred %p<2>;
ld.param.u32 %r1, [x];
add.s32 %r2, %r1, 1;
st.param.b32 [result], %r2;
ret;
}`;
}

function callOf(name: string, part: number): string[] {
  return [
    "{",
    ".param .b32 x;",
    ".param .b32 y;",
    `st.param.b32 [x], %r6;`,
    `call (y), ${name}, (x);`,
    `ld.param.b32 %r${part + 10}, [y];`,
    `add.s32 %r6, %r6, %r${part + 10};`,
    "}",
  ];
}
