import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { test } from "node:test";
import { compilePtx } from "../../src/software/compiler/compile.ts";
import { firstBodyLine, refusalOf, runBody, testModule } from "./compiler_device.ts";

const refused: Readonly<Record<string, readonly string[]>> = {
  "there is no multicast memory": ["multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%rd1];"],
  "need a GPU of sm_100 or newer": [
    "ld.global.v4.b64 {%rd1, %rd2, %rd3, %rd4}, [%rd1];",
    "st.global.v4.f64 [%rd1], {%fd1, %fd2, %fd3, %fd4};",
  ],
  "it needs a GPU of sm_100 or newer, and this device is one of sm_90": [
    "tcgen05.wait::ld.sync.aligned;",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.b128 [%rd1], [%rd2];",
    "st.bulk.weak.shared::cta [%rd1], %rd2, 0;",
    "st.async.mmio.release.sys.global.u32 [%rd1], %r1;",
    "red.async.mmio.release.gpu.global.add.s64 [%rd1], %rd2;",
    "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2}], [%r3];",
    "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd1], [%r1], 16, %h1;",
    "cvt.rs.f16x2.f32 %r1, %f1, %f2, %r2;",
    "cvt.rn.satfinite.e2m1x2.f32 %h1, %f1, %f2;",
    "cvt.rn.f16x2.e3m2x2 %r1, %h1;",
    "cvt.rz.ue8m0x2.f32 %h1, %f1, %f2;",
    "cvt.rs.satfinite.e4m3x4.f32 %r1, {%f1, %f2, %f3, %f4}, %r2;",
    "ld.global.v8.f32 {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, [%rd1];",
  ],
};

for (const [reason, bodies] of Object.entries(refused)) {
  test(`refused instructions name the line and the reason: ${reason}`, () => {
    for (const body of bodies) {
      const { error, part } = refusalOf(testModule(body));
      assertEquals(part, "kernel", error.message);
      const instruction = body.split(" ")[0]!.replace(";", "");
      assertEquals(error.line, firstBodyLine, error.message);
      assert(error.message.startsWith(`Line ${firstBodyLine}: cannot compile "${instruction}": `), error.message);
      assert(error.message.includes(reason), error.message);
    }
  });
}

test("hints and what concerns only a GPU's caches, counters and registers compile to nothing", () => {
  const body = `
    prefetch.global.L1 [%rd1]; prefetch.L2 [%rd1]; prefetch.local.L2 [%rd1]; prefetch.global.L2::evict_last [%rd1];
    prefetch.global.L2::evict_normal [%rd1+64]; prefetchu.L1 [%rd1]; applypriority.global.L2::evict_normal [%rd1], 128;
    discard.global.L2 [%rd1], 128; pmevent 3; pmevent.mask 0xffff; setmaxnreg.inc.sync.aligned.u32 64;
    fence.proxy.alias; fence.proxy.async; fence.proxy.async.global; fence.proxy.async.shared::cta; membar.proxy.alias;
    fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
    fence.mbarrier_init.release.cluster; fence.acquire.sync_restrict::shared::cluster.cluster;
    fence.release.sync_restrict::shared::cta.cluster; fence.acq_rel.cluster; fence.sc.cluster;
    fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
    createpolicy.fractional.L2::evict_last.b64 %rd2, 0f3f800000; createpolicy.fractional.L2::evict_last.b64 %rd2;
    createpolicy.fractional.L2::evict_normal.L2::evict_unchanged.b64 %rd2, %f1; createpolicy.cvt.L2.b64 %rd2, %rd3;
    createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %rd2, [%rd1], %r1, 4096;
    ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd2; ld.global.nc.L1::no_allocate.L2::cache_hint.f32 %f1, [%rd1], %rd2;
    ld.L2::cache_hint.L2::128B.v2.u32 {%r1, %r2}, [%rd1], %rd2; st.global.L2::cache_hint.u32 [%rd1], %r1, %rd2;
    ld.relaxed.gpu.global.L2::cache_hint.u32 %r1, [%rd1], %rd2; atom.global.add.L2::cache_hint.u32 %r1, [%rd1], 1, %rd2;
    atom.exch.L2::cache_hint.b32 %r1, [%rd1], 1, %rd2; red.global.add.L2::cache_hint.u32 [%rd1], 1, %rd2;
    cp.async.ca.shared.global.L2::cache_hint [%r1], [%rd1], 8, %rd2;
    cp.async.cg.shared.global.L2::cache_hint.L2::128B [%r1], [%rd1], 16, 4, %rd2;
    cp.async.bulk.prefetch.L2.global [%rd1], 1048560; cp.async.bulk.prefetch.L2.global [%rd1+16], %r1;
    cp.async.bulk.prefetch.L2.global.L2::cache_hint [%rd1], 0, %rd2;
    @%p1 cp.async.bulk.prefetch.global.L2 [%rd1], 16;`;
  const { wasm, refusals } = compilePtx(testModule(body));
  assertEquals([...refusals.values()].map(({ message }) => message), []);
  assert(WebAssembly.validate(wasm));
  for (
    const [wrong, reason] of [
      ["discard.global.L2 [%rd1], 64;", "its size must be 128"],
      ["cp.async.bulk.prefetch.L2.global [%rd1], 1048576;", "its size must be a multiple of 16 from 0 to 1048560"],
      ["cp.async.bulk.prefetch.L2.global [%rd1], 8;", "its size must be a multiple of 16"],
      ["cp.async.bulk.prefetch.L2.global [%rd1], -16;", "its size must be a multiple of 16"],
      ["cp.async.bulk.prefetch.L2.global [%rd1], %rd2;", '%rd2 is ".b64"'],
      ["cp.async.bulk.prefetch.L2.global %rd1, 16;", "its address must be in brackets"],
      ["pmevent 16;", "a literal from 0 to 15"],
      ["setmaxnreg.dec.sync.aligned.u32 65;", "a multiple of 8"],
      ["ld.shared.L2::cache_hint.u32 %r1, [%r1], %rd2;", "is not supported here"],
      ["ld.global.L2::cache_hint.u32 %r1, [%rd1], %r2;", '%r2 is ".b32"'],
    ] as const
  ) assertStringIncludes(refusalOf(testModule(wrong)).error.message, reason);
});

test("cache policies and prefetches change no results", () => {
  const out = runBody(
    `
    ld.param.u64 %rd1, [out];
    createpolicy.fractional.L2::evict_last.b64 %rd2;
    st.global.L2::cache_hint.v2.u32 [%rd1], {5, 7}, %rd2;
    cp.async.bulk.prefetch.L2.global.L2::cache_hint [%rd1], %r9, %rd2;
    ld.global.L2::cache_hint.u32 %r1, [%rd1+4], %rd2;
    atom.global.add.L2::cache_hint.u32 %r2, [%rd1], %r1, %rd2;
    red.global.max.L2::cache_hint.u32 [%rd1+4], 9, %rd2;
    st.global.u32 [%rd1+8], %r2;
    `,
    undefined,
    12,
  );
  assertEquals([0, 4, 8].map((offset) => out.getUint32(offset, true)), [12, 9, 5]);
});

test("every ordering and cache modifier of loads and stores is accepted", () => {
  const orders = ["", ".weak", ".volatile", ".relaxed.cta", ".relaxed.gpu", ".relaxed.sys", ".mmio.relaxed.sys"];
  for (const order of [...orders, ".acquire.cta", ".acquire.gpu", ".acquire.sys"]) {
    compilePtx(testModule(`ld${order}.global.u32 %r1, [%rd1];`));
  }
  for (const order of [...orders, ".release.cta", ".release.gpu", ".release.sys"]) {
    compilePtx(testModule(`st${order}.global.u32 [%rd1], %r1;`));
  }
  for (
    const hints of ["", ".ca", ".cg", ".cs", ".lu", ".cv", ".L1::evict_last", ".L1::no_allocate.L2::256B", ".L2::64B"]
  ) {
    compilePtx(testModule(`ld.global${hints}.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];`));
    compilePtx(testModule(`ld.global.nc${hints}.v2.u64 {%rd2, %rd3}, [%rd1];`));
  }
  for (const hints of [".wb", ".cg", ".cs", ".wt", ".L1::evict_first", ".L1::no_allocate"]) {
    compilePtx(testModule(`st.global${hints}.b64 [%rd1], %rd2;`));
  }
  compilePtx(testModule("ldu.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];"));
  compilePtx(testModule("ld.acquire.gpu.global.L1::no_allocate.v2.b32 {%r1, %r2}, [%rd1];"));
});

test("state spaces are accepted with sub-qualifiers", () => {
  const out = runBody(
    `
    .shared .align 8 .b64 sm;
    mov.u64 %rd2, sm;
    cvta.shared::cta.u64 %rd3, %rd2;
    ld.param::entry.u64 %rd4, [out];
    st.shared::cta.u64 [sm], %rd4;
    ld.shared::cta.u64 %rd4, [sm];
    isspacep.shared::cta %p1, %rd3;
    isspacep.param %p2, %rd3;
    isspacep.param::entry %p3, %rd3;
    selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 1, 0, %p2; selp.u32 %r3, 1, 0, %p3;
    st.global.u32 [%rd4], %r1; st.global.u32 [%rd4+4], %r2; st.global.u32 [%rd4+8], %r3;
    `,
    undefined,
    12,
  );
  assertEquals([0, 4, 8].map((offset) => out.getUint32(offset, true)), [1, 0, 0]);
});
