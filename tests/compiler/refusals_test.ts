import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { PtxError } from "../../src/ptx/syntax.ts";
import { compilePtx } from "../../src/software/compiler/compile.ts";
import { firstBodyLine, refusalOf, runBody, testModule } from "./compiler_device.ts";

const refused: Readonly<Record<string, readonly string[]>> = {
  "there are no tensor cores": [
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1}, {%r1}, {%r2}, {%f1};",
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r3}, {%f1, %f2, %f3, %f4};",
    "wgmma.commit_group.sync.aligned;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %p1, 1, 1, 0, 0;",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%rd1];",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%rd1], {%r1};",
    "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;",
    "tcgen05.wait::ld.sync.aligned;",
  ],
  "there are no textures and surfaces": [
    "txq.width.b32 %r1, [%rd1];",
    "suq.width.b32 %r1, [%rd1];",
    "istypep.texref %p1, %rd1;",
    "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r2}];",
    "tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, %rd2, {%f5}];",
    "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%p1, [%rd1, {%f5, %f5}];",
    "tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f5}];",
    "sust.b.1d.b32.trap [%rd1, {%r1}], {%r2};",
    "tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], {%f3, %f4}, {%f5, %f5};",
  ],
  "there are no clusters of blocks": [
    "barrier.cluster.arrive.aligned;",
    "barrier.cluster.wait;",
    "mapa.shared::cluster.u64 %rd2, %rd3, 1;",
    "getctarank.u64 %r1, %rd1;",
    "ld.shared::cluster.u32 %r1, [%rd1];",
    "st.shared::cluster.u32 [%rd1], %r1;",
    "atom.shared::cluster.add.u32 %r1, [%rd1], 1;",
    "red.shared::cluster.add.u32 [%rd1], 1;",
    "isspacep.shared::cluster %p1, %rd1;",
    "ld.acquire.cluster.global.u32 %r1, [%rd1];",
    "st.release.cluster.global.u32 [%rd1], %r1;",
    "atom.acq_rel.cluster.global.add.u32 %r1, [%rd1], 1;",
    "fence.acq_rel.cluster;",
  ],
  "wait for asynchronous copies": [
    "mbarrier.init.shared.b64 [%rd1], 1;",
    "mbarrier.try_wait.parity.shared.b64 %p1, [%rd1], %r1;",
    "cp.async.mbarrier.arrive.shared.b64 [%rd1];",
  ],
  "bulk and tensor copies run asynchronously": [
    "cp.async.bulk.commit_group;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], %r2;",
    "tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 1;",
    "multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%rd1];",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%rd1], %r1, [%rd2];",
    "red.async.relaxed.cluster.global.add.u32 [%rd1], %r1;",
    "prefetch.tensormap [%rd1];",
    "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2}], [%r3];",
  ],
  "electing a thread of a warp": ["elect.sync %r1|%p1, -1;"],
  "registers are not redistributed": ["setmaxnreg.inc.sync.aligned.u32 64;"],
  "cache policies are not supported": [
    "createpolicy.fractional.L2::evict_last.b64 %rd1, 0f3f800000;",
    "ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd2;",
    "st.global.L2::cache_hint.u32 [%rd1], %r1, %rd2;",
    "atom.global.add.L2::cache_hint.u32 %r1, [%rd1], 1, %rd2;",
    "red.global.add.L2::cache_hint.u32 [%rd1], 1, %rd2;",
    "cp.async.ca.shared.global.L2::cache_hint [%r1], [%rd1], 8, %rd2;",
  ],
  "128-bit numbers are not supported": [
    "ld.global.b128 %rd2, [%rd1];",
    "mov.b128 %rd1, {%rd2, %rd3};",
    "atom.exch.b128 %rd2, [%rd1], %rd3;",
  ],
  "orders kinds of accesses that do not exist here": [
    "fence.proxy.async;",
    "fence.mbarrier_init.release.cluster;",
    "membar.proxy.alias;",
  ],
  "video instructions of this kind are not supported": [
    "vadd.s32.u32.u32 %r1, %r2, %r3;",
    "vadd4.u32.u32.u32 %r1, %r2, %r3, %r4;",
    "vabsdiff4.s32.u32.u32 %r1, %r2, %r3, %r4;",
    "vabsdiff2.u32.u32.u32.sat %r1, %r2, %r3, %r4;",
  ],
  "there is no debugger": ["brkpt;"],
  "there are no performance counters": ["pmevent 3;"],
  "it is for devices before sm_70, whose warps run in lockstep: use shfl.sync, with the mask of the participating lanes":
    [
      "shfl.up.b32 %r1, %r2, 1, 0;",
      "shfl.idx.b32 %r1|%p1, %r2, %r3, 31;",
    ],
  "it is for devices before sm_70, whose warps run in lockstep: use vote.sync, with the mask of the participating lanes":
    [
      "vote.all.pred %p1, %p2;",
      "vote.uni.pred %p1, !%p2;",
      "vote.ballot.b32 %r1, %p2;",
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

test("cache hints compile to nothing", () => {
  const body = `
    prefetch.global.L1 [%rd1]; prefetch.L2 [%rd1]; prefetch.local.L2 [%rd1]; prefetch.global.L2::evict_last [%rd1];
    prefetch.global.L2::evict_normal [%rd1+64]; prefetchu.L1 [%rd1]; applypriority.global.L2::evict_normal [%rd1], 128;
    discard.global.L2 [%rd1], 128;`;
  assert(WebAssembly.validate(compilePtx(testModule(body)).wasm));
  assertThrows(() => compilePtx(testModule("discard.global.L2 [%rd1], 64;")), PtxError, "its size must be 128");
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
