/** What early PTX has and later PTX does not, as ptxas 13.0 compiles it for sm_90. */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { allocate, load, refusalOf, testModule } from "./compiler_device.ts";
import { runThreads, upTo } from "./threads.ts";

/** Runs a kernel of early PTX in one thread, and returns the 32-bit words that it wrote. */
function run(
  { version, target, declarations = "" }: { version: string; target: string; declarations?: string },
  { body, words }: { body: string; words: number },
): number[] {
  const out = allocate(4 * words);
  load(`.version ${version}
.target ${target}
${declarations}
.entry test (.param .u64 out) {
  .reg .u64 %o; .reg .u32 %r<9>; .reg .f32 %f<9>; .reg .f64 %d<9>; .reg .pred %p<9>;
  ld.param.u64 %o, [out];
  ${body}
  exit;
}`).run("test", { parameters: [{ type: "u64", value: out.address }] });
  return upTo(words, (word) => out.view.getUint32(4 * word, true));
}

test("a module of nvopencc loads and runs", () => {
  const declarations = `
	.visible .func (.param .u32 __cudaretf__Z3addii) _Z3addii (.param .s32 __cudaparmf1__Z3addii, .param .s32 __cudaparmf2__Z3addii)

	.visible .func (.param .u32 __cudaretf__Z3addii) _Z3addii (.param .s32 __cudaparmf1__Z3addii, .param .s32 __cudaparmf2__Z3addii)
	{
	.reg .u32 %r<5>;
	.loc	28	4	0
$LDWbegin__Z3addii:
	ld.param.u32 	%r1, [__cudaparmf1__Z3addii];
	ld.param.u32 	%r2, [__cudaparmf2__Z3addii];
	add.u32 	%r3, %r1, %r2;
	st.param.s32 	[__cudaretf__Z3addii], %r3;
	ret;
$LDWend__Z3addii:
	} // _Z3addii

	.file	1	"<command-line>"
	.file	28	"add.cu"`;
  const body = `
	.param .u32 a; .param .u32 b; .param .u32 r;
	st.param.s32 [a], 40; st.param.s32 [b], 2;
	call.uni (r), _Z3addii, (a, b);
	ld.param.s32 %r1, [r]; st.global.u32 [%o+0], %r1;`;
  assertEquals(run({ version: "2.3", target: "sm_20", declarations }, { body, words: 1 }), [42]);
});

test("a kernel of PTX 1.2 with its parameters in its body loads and runs", () => {
  const out = allocate(8);
  load(`.version 1.2
.target sm_13
.reg .u32 %ra<17>;
.entry test {
  .reg .u64 %rd<3>; .reg .u32 %r<3>;
  .param .u64 __cudaparm_out; .param .s32 __cudaparm_n;
  ld.param.u64 %rd1, [__cudaparm_out]; ld.param.s32 %r1, [__cudaparm_n]; mov.u32 %ra1, %r1; st.global.u32 [%rd1+4], %ra1;
  exit;
}`).run("test", { parameters: [{ type: "u64", value: out.address }, { type: "u32", value: 7 }] });
  assertEquals(out.view.getUint32(4, true), 7);
});

test("mad.f32 without a rounding mode rounds once, to nearest", () => {
  const body = `
    mov.f32 %f1, 0f3F800800; mov.f32 %f2, 0fBF801000; mad.f32 %f3, %f1, %f1, %f2; st.global.f32 [%o], %f3;
    mov.f32 %f1, 0f40000000; mad.sat.f32 %f3, %f1, %f1, %f1; st.global.f32 [%o+4], %f3;`;
  for (const [version, target] of [["1.4", "sm_13"], ["3.1", "sm_30"], ["4.0", "sm_13"]] as const) {
    assertEquals(run({ version, target }, { body, words: 2 }), [0x33800000, 0x3f800000]);
  }
  const { part } = refusalOf(testModule("mad.f32 %f1, %f2, %f3, %f4;"));
  assertEquals(part, "module");
});

test("before sm_20, arithmetic on single precision flushes subnormal numbers to zero, and conversions to double do not", () => {
  const body = `
    mov.b32 %f1, 0x80000001; add.f32 %f2, %f1, 0f00000000; st.global.f32 [%o], %f2;
    mov.b32 %f3, 0x20000000; mul.f32 %f2, %f3, 0f1B000000; st.global.f32 [%o+4], %f2;
    setp.lt.f32 %p1, %f1, 0f00000000; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%o+8], %r1;
    set.lt.u32.f32 %r1, %f1, 0f00000000; st.global.u32 [%o+12], %r1;
    slct.u32.f32 %r1, 5, 6, %f1; st.global.u32 [%o+16], %r1;
    cvt.f64.f32 %d1, %f1; cvt.rn.f32.f64 %f2, %d1; st.global.f32 [%o+20], %f2;
    mov.f32 %f2, %f1; st.global.f32 [%o+24], %f2; cvt.rn.f32.s32 %f2, -3; st.global.f32 [%o+28], %f2;`;
  const answers = { sm_13: [0, 0, 0, 0, 5], sm_20: [0x80000001, 0x2000, 1, 0xffffffff, 6] };
  for (const [target, answer] of Object.entries(answers)) {
    const written = run({ version: "2.3", target }, { body, words: 8 });
    // An addition of zero gives a zero of either sign.
    written[0] = target === "sm_13" ? written[0]! & 0x7fffffff : written[0]!;
    assertEquals(written, [...answer, 0x80000001, 0x80000001, 0xc0400000], target);
  }
});

test("map_f64_to_f32 changes nothing, and only targets without double precision have it", () => {
  const body = "mov.f64 %d1, 0d3FF0000000000001; add.f64 %d1, %d1, 0d3FF0000000000000; st.global.f64 [%o], %d1;";
  assertEquals(run({ version: "1.4", target: "sm_10, map_f64_to_f32" }, { body, words: 2 }), [0, 0x40000000]);
});

test("constants in banks are constants", () => {
  const declarations = ".const[2] .u32 c[4] = {1, 2, 3, 4}; .const .u32 d = 7;";
  const body = `
    ld.const[2].u32 %r1, [c+4]; ld.const.u32 %r2, [d]; ld.const[0].u32 %r3, c[3]; mad.lo.u32 %r1, %r1, 10, %r2;
    mad.lo.u32 %r1, %r1, 10, %r3; st.global.u32 [%o], %r1;`;
  assertEquals(run({ version: "2.1", target: "sm_20", declarations }, { body, words: 1 }), [274]);
  const { error, part } = refusalOf(testModule("ld.const[2].u32 %r1, [%rd1];"));
  assertEquals(part, "module", error.message);
});

test("textures of PTX 1.4 refuse only the kernels that read them", () => {
  const declarations = ".tex .u64 one, two;";
  const body = "st.global.u32 [%o], 3;";
  assertEquals(run({ version: "1.4", target: "sm_13", declarations }, { body, words: 1 }), [3]);
  const { part } = refusalOf(`.version 1.4\n.target sm_13\n${declarations}\n.entry k (.param .u64 out) {
    .reg .f32 %f<4>; .reg .s32 %s; tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [one, {%s, %s, %s, %s}]; exit; }`);
  assertEquals(part, "kernel");
});

test("shfl and vote without a mask concern the lanes that execute them together", () => {
  const body = `
    shfl.down.b32 %r3|%p1, %r0, 2, 31; selp.u32 %r4, 100, 0, %p1; add.u32 %r3, %r3, %r4; st.global.u32 [%rd2], %r3;
    and.b32 %r5, %r0, 1; setp.eq.u32 %p2, %r5, 1; mov.u32 %r6, 0; mov.u32 %r7, 0;
    @%p2 vote.ballot.b32 %r6, %p2; st.global.u32 [%rd2+4], %r6;
    @!%p2 bra ODD; setp.gt.u32 %p3, %r0, 2; vote.all.pred %p4, %p3; vote.any.pred %p5, !%p3; vote.uni.pred %p6, %p2;
    shfl.bfly.b32 %r7, %r0, 2, 31; @%p4 add.u32 %r7, %r7, 100; @%p5 add.u32 %r7, %r7, 200; @%p6 add.u32 %r7, %r7, 400;
    ODD: st.global.u32 [%rd2+8], %r7;
    setp.gt.u32 %p3, %r0, 35; @%p3 exit; vote.ballot.b32 %r8, %p2; st.global.u32 [%rd2+12], %r8;`;
  const block = 40;
  assertEquals(
    runThreads(body, { block: [block, 1, 1], words: 4 }),
    upTo(block, (thread) => {
      const lane = thread % 32, lanes = thread < 32 ? 32 : block - 32;
      const odd = thread % 2 === 1;
      // What is read from a lane that has not been started is undefined, and zero here.
      const below = lane + 2 < 32 ? lane + 2 < lanes ? thread + 102 : 100 : thread;
      const oddLanes = lanes === 32 ? 0xaaaaaaaa : 0xaa;
      const inWarp = thread < 32 ? 200 + 400 : 100 + 400;
      return [
        below,
        odd ? oddLanes : 0,
        odd ? (thread ^ 2) + inWarp : 0,
        thread > 35 ? 0 : lanes === 32 ? oddLanes : 0xa,
      ];
    }).flat(),
  );
});

test("since PTX 6.4, shfl and vote need a mask for sm_70 and newer", () => {
  for (
    const [body, opcode] of [
      ["shfl.up.b32 %r1, %r2, 1, 0;", "shfl"],
      ["shfl.idx.b32 %r1|%p1, %r2, %r3, 31;", "shfl"],
      ["vote.uni.pred %p1, !%p2;", "vote"],
      ["vote.ballot.b32 %r1, %p2;", "vote"],
    ] as const
  ) {
    for (
      const [version, target, isTaken] of [["6.3", "70", true], ["8.0", "60", true], ["6.4", "70", false]] as const
    ) {
      const ptx = testModule(body).replace(".version 7.0", `.version ${version}`).replace("sm_60", `sm_${target}`);
      if (isTaken) {
        load(ptx);
        continue;
      }
      const { error, part } = refusalOf(ptx);
      assertEquals(part, "kernel");
      assert(error.message.includes(`use ${opcode}.sync, with the mask of the participating lanes`), error.message);
    }
  }
});
