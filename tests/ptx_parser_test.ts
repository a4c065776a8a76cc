import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { parsePtx } from "../src/ptx/parser.ts";
import { type Instruction, PtxError } from "../src/ptx/syntax.ts";

function parseBody(body: string): Instruction[] {
  const module = parsePtx(`.version 7.0\n.target sm_60\n.address_size 64\n.entry k()\n{\n${body}\n}`);
  return module.functions[0]!.body!.filter((statement) => statement.kind === "instruction");
}

test("parsePtx keeps modifiers, operands, predicates and lines", () => {
  const [setp, load, call] = parseBody(`@!%p1 setp.lt.and.f32 %p2|_, %f1, 0f3F800000, !%p4;
    ld.global.nc.L1::no_allocate.v2.u32
      {%r1, _}, [%rd1+-8];
    call.uni (%r1), f, (%r2, 7);`);
  assertEquals(setp!.predicate, { name: "%p1", negated: true });
  assertEquals(setp!.modifiers, ["lt", "and", "f32"]);
  assertEquals(setp!.operands[2], { kind: "float", precision: "single", bits: 0x3f800000n });
  assertEquals(setp!.operands[3]!.kind, "not");
  assertEquals(load!.modifiers, ["global", "nc", "L1::no_allocate", "v2", "u32"]);
  assertEquals(load!.line, 7);
  assertEquals(load!.operands[1], {
    kind: "address",
    base: { kind: "name", name: "%rd1", component: undefined },
    offset: -8n,
  });
  assertEquals(call!.operands.map(({ kind }) => kind), ["list", "name", "list"]);
});

test("parsePtx reads numbers in every notation", () => {
  const [instruction] = parseBody("op 0x1F, 017, 0b101, 42U, -3, 00, 1.5, -0d3FF0000000000000, 2e3, 08.5;");
  assertEquals(instruction!.operands, [
    { kind: "integer", value: 31n },
    { kind: "integer", value: 15n },
    { kind: "integer", value: 5n },
    { kind: "integer", value: 42n },
    { kind: "integer", value: -3n },
    { kind: "integer", value: 0n },
    { kind: "float", precision: "double", bits: 0x3ff8000000000000n },
    { kind: "float", precision: "double", bits: 0xbff0000000000000n },
    { kind: "float", precision: "double", bits: 0x409f400000000000n },
    { kind: "float", precision: "double", bits: 0x4021000000000000n },
  ]);
});

test("parsePtx keeps the dimensions and the initial value of variables", () => {
  const { variables } = parsePtx(`.version 7.0
.target sm_60
.visible .global .align 8 .u64 a[][2] = {{1}, {generic(b)+-4, 0xFF00(c+8)}}, b;
.extern .shared .align 16 .b8 c[];`);
  assertEquals(variables.map(({ name, linkage }) => [name, linkage]), [["a", "visible"], ["b", "visible"], [
    "c",
    "extern",
  ]]);
  assertEquals(variables.map(({ dimensions }) => dimensions), [[2, 2], [], [0]]);
  assertEquals(variables.map(({ elementCount }) => elementCount), [4, undefined, 0]);
  assertEquals(variables[0]!.initializer, {
    kind: "elements",
    elements: [
      { kind: "elements", elements: [{ kind: "integer", value: 1n }], line: 3 },
      {
        kind: "elements",
        elements: [
          { kind: "addressOf", name: "b", offset: -4n, mask: undefined, line: 3 },
          { kind: "addressOf", name: "c", offset: 8n, mask: 0xff00n, line: 3 },
        ],
        line: 3,
      },
    ],
    line: 3,
  });
  assertEquals([variables[1]!.initializer, variables[2]!.initializer], [undefined, undefined]);
});

test("parsePtx keeps the offset of a name", () => {
  const [move] = parseBody("mov.u64 %rd1, table+-4+12;");
  const name = { kind: "name", name: "table", component: undefined } as const;
  assertEquals(move!.operands[1], { kind: "sum", name, offset: 8n });
});

test("parsePtx names the line of what it cannot read", () => {
  const errors: [text: string, line: number][] = [
    ["", 1],
    ["\n\n.target sm_60", 3],
    [".version seven\n.target sm_60", 1],
    [".version 7.0\n.target sm_60\n.address_size 32", 3],
    [".version 7.0\n.target sm_60\n\n.future thing;", 4],
    [".version 7.0\n.target sm_60\n.reg .b32 %r;", 3],
    [".version 7.0\n.target sm_60\n.entry k() {\n add.u32 %r1 %r2;\n}", 4],
    [".version 7.0\n.target sm_60\n.entry k() {\n add.u32 %r1, #;\n}", 4],
    [".version 7.0\n.target sm_60\n.entry k() {\n\n ld.u32 %r1, [%r2+%r3];\n}", 5],
    [".version 7.0\n.target sm_60\n.entry k() {\n ret;\n", 5],
    [".version 7.0\n.target sm_60\n.entry k() {\n\n mov.u32 %r1, 09;\n}", 5],
    [".version 7.0\n.target sm_60\n.entry k() {\n\n mov.u64 %rd1, x++4;\n}", 5],
    [".version 7.0\n.target sm_60\n.entry k() {\n\n ld.u32 %r1, [16 4];\n}", 5],
    [".version 7.0\n.target sm_60\n.global .u32 x[2] = {1,\n{2}};", 4],
    [".version 7.0\n.target sm_60\n.global .u32 x = generic(y;", 3],
    [".version 7.0\n.target sm_60\n.global .u32 x = 0xFF(y;", 3],
    [`.version 7.0\n.target sm_60\n.global .u32 x${"[1]".repeat(5000)};`, 3],
    [`.version 7.0\n.target sm_60\n.entry k() {\n${"{".repeat(5000)}`, 4],
  ];
  for (const [text, line] of errors) {
    const error = assertThrows(() => parsePtx(text), PtxError) as PtxError;
    assertEquals(error.line, line, `${text} ${error.message}`);
  }
});
