import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { test } from "node:test";
import { ptx as saxpy } from "../../kernels/saxpy.ts";
import { kernelSignatures } from "../../src/ptx/kernel_signature.ts";
import { parsePtx } from "../../src/ptx/parsing/parser.ts";
import { type Instruction, type Operand, PtxError, type Statement } from "../../src/ptx/syntax.ts";

function parseStatements(body: string): readonly Statement[] {
  return parsePtx(`.version 7.0\n.target sm_60\n.address_size 64\n.entry k()\n{\n${body}\n}`).functions[0]!.body!;
}

function parseBody(body: string): Instruction[] {
  return ofKind("instruction", parseStatements(body));
}

function ofKind<Kind extends Statement["kind"]>(kind: Kind, statements: readonly Statement[]) {
  return statements.filter((statement): statement is Extract<Statement, { kind: Kind }> => statement.kind === kind);
}

/** Formats an operand as in PTX, without spaces. */
function operandText(operand: Operand): string {
  if (operand.kind === "list") return `(${operand.elements.map(operandText).join(",")})`;
  return operand.kind === "name" ? operand.name : operand.kind;
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

test("parsePtx keeps the results, the function and the parameters of a call apart", () => {
  const calls = parseBody(`call f;
    call.uni f, (a);
    call.uni (retval0),
    f,
    (
    param0,
    param1
    );
    call (retval0),
    %rd1,
    (param0)
    , prototype_0;
    @!%p1 call (_), f, (), targets;`);
  assertEquals(calls.map(({ opcode }) => opcode), Array(5).fill("call"));
  assertEquals(calls.map(({ modifiers }) => modifiers), [[], ["uni"], ["uni"], [], []]);
  assertEquals(calls.map(({ operands }) => operands.map(operandText)), [
    ["f"],
    ["f", "(a)"],
    ["(retval0)", "f", "(param0,param1)"],
    ["(retval0)", "%rd1", "(param0)", "prototype_0"],
    ["(_)", "f", "()", "targets"],
  ]);
  assertEquals(calls[4]!.predicate, { name: "%p1", negated: true });
  assertEquals(calls.map(({ line }) => line), [6, 7, 8, 14, 18]);
});

test("parsePtx reads the parts of a call", () => {
  const [block] = ofKind(
    "block",
    parseStatements(`{ // callseq 0, 0
    .reg .b32 temp_param_reg;
    .param .align 8 .b8 param0[24];
    st.param.v2.b64 [param0+8], {%rd1, %rd2};
    .param .b32 retval0;
    prototype_0 : .callprototype (.param .align 4 .b8 _[12]) _ (.param .b64 _, .param .align 8 .b8 _[]) .noreturn;
    plain: .callprototype _;
    nothing: .callprototype ()_ (.reg .f32 x);
    targets: .calltargets f, g;
    jumps: .branchtargets $L__BB0_1, $L__BB0_2;
    } // callseq 0`),
  );
  const { statements } = block!;
  assertEquals(statements.map(({ kind }) => kind).slice(0, 4), ["registers", "variable", "instruction", "variable"]);
  assertEquals(
    ofKind("variable", statements).map(({ space, type, alignment, elementCount }) => {
      return [space, type, alignment, elementCount];
    }),
    [["param", "b8", 8, 24], ["param", "b32", undefined, undefined]],
  );
  const prototypes = ofKind("callPrototype", statements);
  assertEquals(prototypes.map(({ name }) => name), ["prototype_0", "plain", "nothing"]);
  assertEquals(prototypes.map(({ results }) => results.map(({ name }) => name)), [["_"], [], []]);
  assertEquals(prototypes.map(({ parameters }) => parameters.map(({ name, space }) => [name, space])), [
    [["_", "param"], ["_", "param"]],
    [],
    [["x", "reg"]],
  ]);
  assertEquals(prototypes[0]!.results[0]!.elementCount, 12);
  assertEquals(prototypes[0]!.parameters.map(({ elementCount }) => elementCount), [undefined, 0]);
  assertEquals(prototypes.map(({ directives }) => directives), [[{ name: "noreturn", values: [], line: 11 }], [], []]);
  assertEquals(statements.slice(-2), [
    { kind: "callTargets", name: "targets", targets: ["f", "g"], line: 14 },
    { kind: "branchTargets", name: "jumps", targets: ["$L__BB0_1", "$L__BB0_2"], line: 15 },
  ]);
});

test("parsePtx keeps the parts of a function's head", () => {
  const { functions, aliases } = parsePtx(`.version 8.8
.target sm_90
.extern .func (.param .b32 func_retval0) vprintf(.param .b64 vprintf_param_0, .param .b64 vprintf_param_1);
.func __assertfail
()
.noreturn
;
.weak .func .attribute(.unified(0xFFFFFFFFFFFFFFFF, 2)) (.param .align 8 .b8 r[24]) f(.param .align 8 .b8 x[])
.noinline .abi_preserve 4 .abi_preserve_control 2
{ ret; }
.alias g, f;
.visible .entry k(.param .u64 .ptr .global .align 4 p) .maxntid 256, 2 .minnctapersm 2 .pragma "nounroll"; .explicitcluster
.reqnctapercluster 2, 1, 1 .maxclusterrank 8 { }`);
  assertEquals(functions.map(({ kind, name, linkage }) => [kind, name, linkage]), [
    ["func", "vprintf", "extern"],
    ["func", "__assertfail", undefined],
    ["func", "f", "weak"],
    ["entry", "k", "visible"],
  ]);
  assertEquals(functions.map(({ body }) => body?.length), [undefined, undefined, 1, 0]);
  assertEquals(functions.map(({ results }) => results.length), [1, 0, 1, 0]);
  assertEquals(functions.map(({ parameters }) => parameters.length), [2, 0, 1, 1]);
  assertEquals(functions.map(({ directives }) => directives.map(({ name, values }) => [name, ...values])), [
    [],
    [["noreturn"]],
    [["unified"], ["noinline"], ["abi_preserve", 4], ["abi_preserve_control", 2]],
    [
      ["maxntid", 256, 2],
      ["minnctapersm", 2],
      ["pragma"],
      ["explicitcluster"],
      ["reqnctapercluster", 2, 1, 1],
      ["maxclusterrank", 8],
    ],
  ]);
  assertEquals(functions[2]!.parameters[0]!.elementCount, 0);
  assertEquals(aliases, [{ name: "g", target: "f", line: 11 }]);
});

test("parsePtx skips debug information, and counts its lines", () => {
  const { functions, variables } = parsePtx(`.version 9.0
.target sm_90, debug
@@DWARF .byte 0x2b, "text"
.file 1 "/a {folder}/k.cu", 1700000000, 42
.entry k()
{
.loc 1 7 0
$L__func_begin0:
\t.loc\t1 7 0
@@DWARF .4byte $L__func_begin0
.loc 2 13 6, function_name $L__info_string0, inlined_at 1 12 5
ret;
$L__func_end0:
}
.section .debug_info
{
.b8 1 // {
.b32 .debug_abbrev, $L__func_end0-$L__func_begin0
$L__info_string0:
.b8 95,90
}
.section	.debug_loc	{	}
.common .global .u32 x;`);
  assertEquals(functions[0]!.body!.map(({ kind, line }) => [kind, line]), [["label", 8], ["instruction", 12], [
    "label",
    13,
  ]]);
  assertEquals(variables.map(({ name, linkage, line }) => [name, linkage, line]), [["x", "common", 23]]);
});

test("lineInfo names the source of each instruction", () => {
  const { lineInfo } = parsePtx(`.version 9.0
.target sm_90
.entry k() {
add.u32 %r1, %r1, 1;
.loc 1 7 3
add.u32 %r1, %r1, 1;
{
.loc\t3 13 6, function_name $L__info_string0, inlined_at 1 12 5
add.u32 %r1, %r1, 1;
}
.loc 1 0 0
add.u32 %r1, %r1, 1;
.loc 4 5 0
add.u32 %r1, %r1, 1;
.loc 5 6 0
add.u32 %r1, %r1, 1;
.loc 9 1 1
add.u32 %r1, %r1, 1;
.loc nonsense
ret;
}
.entry without() {
ret;
}
.file 1 "/home/me/a/saxpy.cu", 1700000000, 42
.file 2 "./src/saxpy.cu"
.file 3 "/usr/local/cuda/include/cuda_fp16.hpp"
.file 4 "C:\\\\src\\\\step.cu"
.file 5 "/usr/include" "new"
.file 6 "/home/me/a/./saxpy.cu"`);
  const sources = new Map([
    [4, undefined],
    [6, "a/saxpy.cu:7"],
    [9, "cuda_fp16.hpp:13, inlined at a/saxpy.cu:12"],
    [12, undefined],
    [14, "step.cu:5"],
    [16, "new:6"],
    [18, undefined],
    [20, undefined],
    [23, undefined],
  ]);
  for (const [line, source] of sources) assertEquals(lineInfo.sourceOf(line), source, `line ${line}`);
});

test("parsePtx reads vectors of eight and 128-bit types", () => {
  const statements = parseStatements(`.reg .b128 %rq<3>;
    .reg .v4 .f32 %v;
    ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, _}, [%rd1];`);
  assertEquals(ofKind("registers", statements).map(({ type, vectorLength }) => [type, vectorLength]), [["b128", 1], [
    "f32",
    4,
  ]]);
  const [vector] = ofKind("instruction", statements)[0]!.operands;
  assertEquals(vector?.kind === "vector" && vector.elements.length, 8);
});

test("parsePtx reads textures, surfaces and tensors with coordinates", () => {
  const name = (name: string) => ({ kind: "name", name, component: undefined });
  const vector = (...names: string[]) => ({ kind: "vector", elements: names.map(name) });
  const coordinates = (base: string, ...parts: unknown[]) => ({ kind: "coordinates", base: name(base), parts });
  const texel = vector("%f1", "%f2", "%f3", "%f4");
  for (
    const [text, operands] of [
      ["tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [image, {%r1, %r2}]", [
        texel,
        coordinates("image", vector("%r1", "%r2")),
      ]],
      ["tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [image, sampler, {%f5}], %f6", [
        texel,
        coordinates("image", name("sampler"), vector("%f5")),
        name("%f6"),
      ]],
      ["tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%p1, [image, {%f1, %f2}]", [
        { kind: "pair", first: texel, second: name("%p1") },
        coordinates("image", vector("%f1", "%f2")),
      ]],
      ["sust.b.1d.b32.trap [s, {%r1}], {%r2}", [coordinates("s", vector("%r1")), vector("%r2")]],
    ] as const
  ) {
    assertEquals(parseBody(`${text};`)[0]!.operands, operands as never);
  }
  for (
    const text of [
      "tex.1d [image, {%r1};",
      "tex.1d [image, {%r1]};",
      "tex.1d [image, ];",
      "tex.1d {%r1}|, [a];",
      "tex.1d [image+4, {%r1}];",
    ]
  ) {
    assertThrows(() => parseBody(text), PtxError, "was expected");
  }
});

test("texture references are variables", () => {
  const { variables } = parsePtx(`.version 7.0 .target sm_60
    .global .texref c;
    .global .samplerref d = { addr_mode_0 = clamp_to_border, filter_mode = nearest };
    .global .u32 e = 5;`);
  assertEquals(
    variables.map(({ name, space, type }) => [name, space, type]),
    [
      ["c", "global", "texref"],
      ["d", "global", "samplerref"],
      ["e", "global", "u32"],
    ],
  );
});

test("parsePtx names the line of an error", () => {
  const errors: [text: string, line: number][] = [
    ["", 1],
    ["\n\n.target sm_60", 3],
    [".version seven\n.target sm_60", 1],
    [".version 7.0\n.target sm_60\n.address_size 32", 3],
    [".version 7.0\n.target sm_60\n\n.future thing;", 4],
    [".version 7.0\n.target sm_60\n.reg .nothing %r;", 3],
    [".version 7.0\n.target sm_60\n.entry k() {\n add.u32 %r1 %r2;\n}", 4],
    [".version 7.0\n.target sm_60\n.entry k() {\n add.u32 %r1, #;\n}", 4],
    [".version 7.0\n.target sm_60\n.entry k() {\n\n ld.u32 %r1, [%r2+%r3];\n}", 5],
    [".version 7.0\n.target sm_60\n.entry k() {\n ret;\n", 5],
    [".version 7.0\n.target sm_60\n.entry k() {\n\n mov.u32 %r1, 09;\n}", 5],
    [".version 7.0\n.target sm_60\n.entry k() {\n\n mov.u64 %rd1, x+;\n}", 5],
    [".version 7.0\n.target sm_60\n.entry k() {\n\n ld.u32 %r1, [16 4];\n}", 5],
    [".version 7.0\n.target sm_60\n.global .u32 x[2] = {1,\n{2}};", 4],
    [".version 7.0\n.target sm_60\n.global .u32 x = generic(y;", 3],
    [".version 7.0\n.target sm_60\n.global .u32 x = 0xFF(y;", 3],
    [`.version 7.0\n.target sm_60\n.global .u32 x${"[1]".repeat(5000)};`, 3],
    [`.version 7.0\n.target sm_60\n.entry k() {\n${"{".repeat(5000)}`, 4],
    [".version 7.0\n.target sm_60\n.entry k() {\n\n mov.u64 %rd1, 99999999999999999999;\n}", 5],
    [`.version 7.0\n.target sm_60\n.global .u64 x = ${"9".repeat(1_000_000)};`, 3],
    [`.version 7.0\n.target sm_60\n.pragma "${"a".repeat(1_000_000)};\n`, 3],
    [".version 7.0\n.target sm_60\n.alias a;", 3],
    [".version 7.0\n.target sm_60\n.func f() {\n { ret;\n}\n.visible .entry k() { ret; }\n", 6],
    [".version 7.0\n.target sm_60\n.func f() {\n p: .callprototype g (.param .b32 _);\n}", 4],
    [".version 7.0\n.target sm_60\n.func f() {\n t: .calltargets ;\n}", 4],
    [".version 7.0\n.target sm_60\n.func f() {\n call (a), f, (b, (c));\n}", 4],
    [".version 7.0\n.target sm_60\n.func .attribute(.unified f() {}", 3],
  ];
  for (const [text, line] of errors) {
    const error = assertThrows(() => parsePtx(text), PtxError) as PtxError;
    assertEquals(error.line, line, `${text} ${error.message}`);
  }
});

test("kernels before PTX 1.4 declare their parameters in their bodies", () => {
  const kernel = `.target sm_13
.entry first {
  .reg .u32 %r<3>; .param .u64 out; { .reg .u32 a; }
  .param .s32 count; .param .align 8 .b8 data[12];
  exit;
}
.entry second { exit; }`;
  for (const version of ["1.3", "1.4"]) {
    const text = `.version ${version}\n${kernel}`;
    const names = version === "1.3" ? [["out", "count", "data"], []] : [[], []];
    const { functions } = parsePtx(text);
    assertEquals(functions.map(({ parameters }) => parameters.map(({ name }) => name)), names);
    assertEquals(functions[0]!.body!.length, version === "1.3" ? 3 : 6);
    assertEquals(kernelSignatures(text).map(({ parameters }) => parameters.length), names.map(({ length }) => length));
  }
  const cutOff = `.version 1.3\n${kernel}`.slice(0, 100);
  assertThrows(() => kernelSignatures(cutOff), PtxError);
});

test("text that was cut off is refused with the name of the function in which it ends", () => {
  const body = saxpy.indexOf("{");
  for (let end = body + 1; end < saxpy.lastIndexOf("}"); end += 7) {
    const { message } = assertThrows(() => parsePtx(saxpy.slice(0, end)), PtxError);
    assertMatch(message, /; the text ends in the middle of "saxpy": it may have been cut off$/, message);
  }
  const { message } = assertThrows(() => parsePtx(saxpy.replace("cvt.u64.u32 \t", "cvt.u64.u32 ;")), PtxError);
  assertEquals(message.includes("cut off"), false);
});
