import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { faultKind } from "../../src/software/abi/addresses.ts";
import { allocate, Fault, load, testModule } from "./compiler_device.ts";
import { runThreads, threadsModule, upTo } from "./threads.ts";

const declarations = ".shared .align 8 .b8 sm[256];";

test("a block is a cluster of one: its registers, and the addresses of its shared memory", () => {
  const written = runThreads(
    `
  mapa.shared::cluster.u32 %r3, sm, 0;
  mov.u32 %r4, sm; sub.u32 %r3, %r3, %r4; st.global.u32 [%rd2], %r3;
  mov.u64 %rd3, sm; cvta.shared::cluster.u64 %rd3, %rd3; mapa.u64 %rd4, %rd3, 0;
  sub.u64 %rd5, %rd4, %rd3; cvt.u32.u64 %r3, %rd5; st.global.u32 [%rd2+4], %r3;
  getctarank.u64 %r3, %rd4; st.global.u32 [%rd2+8], %r3;
  getctarank.shared::cluster.u32 %r3, sm; st.global.u32 [%rd2+12], %r3;
  mov.u32 %r3, %cluster_ctarank; st.global.u32 [%rd2+16], %r3;
  mov.u32 %r3, %cluster_nctarank; st.global.u32 [%rd2+20], %r3;
  mov.u32 %r3, %cluster_nctaid.z; st.global.u32 [%rd2+24], %r3;
  mov.u32 %r3, %nclusterid.x; st.global.u32 [%rd2+28], %r3;
  mov.u32 %r3, %clusterid.y; st.global.u32 [%rd2+32], %r3;
  mov.pred %p1, %is_explicit_cluster; selp.u32 %r3, 1, 0, %p1; st.global.u32 [%rd2+36], %r3;
  isspacep.shared::cluster %p1, %rd4; selp.u32 %r3, 1, 0, %p1; st.global.u32 [%rd2+40], %r3;
  cvta.to.shared::cluster.u64 %rd5, %rd4; mov.u32 %r5, 3;
  st.shared::cluster.u32 [%rd5], %r5; atom.relaxed.cluster.shared::cluster.add.u32 %r6, [%rd5], 4;
  red.release.cluster.shared::cluster.add.u32 [sm], 10; ld.acquire.cluster.shared::cluster.u32 %r3, [%rd5];
  st.global.u32 [%rd2+44], %r3;
  st.release.cluster.global.u32 [%rd2+48], %r6;`,
    { block: [1, 1, 1], words: 13, declarations },
  );
  assertEquals(written, [0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 17, 3]);
});

test("the shared memory of another block of the cluster is none", () => {
  for (
    const body of [
      "mapa.shared::cluster.u32 %r3, sm, 1; ld.shared::cluster.u32 %r4, [%r3];",
      "mov.u64 %rd3, sm; cvta.shared.u64 %rd3, %rd3; mapa.u64 %rd3, %rd3, 1; ld.u32 %r4, [%rd3];",
    ]
  ) {
    const error = assertThrows(() => runThreads(body, { block: [1, 1, 1], declarations }), Fault);
    assertEquals(error.kind, faultKind.outsideSharedSpan);
  }
});

test("barrier.cluster.wait waits for all threads of the block, with gangs too", () => {
  const body = `
  mov.u32 %r5, %tid.x; shl.b32 %r6, %r5, 2; mov.u32 %r7, sm; add.u32 %r7, %r7, %r6;
  st.shared.u32 [%r7], %r5;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  xor.b32 %r6, %r6, 252; mov.u32 %r7, sm; add.u32 %r7, %r7, %r6;
  ld.shared.u32 %r8, [%r7]; st.global.u32 [%rd2], %r8;
  barrier.cluster.arrive; barrier.cluster.wait;`;
  const expected = upTo(64, (index) => 63 - index);
  assertEquals(runThreads(body, { block: [64, 1, 1], declarations }), expected);
  const out = allocate(256);
  const parameters = [{ type: "u64", value: out.address }, { type: "u64", value: 0n }] as const;
  load(threadsModule(body, { declarations }), { gangWidth: 32 }).run("test", { block: [64, 1, 1], parameters });
  assertEquals(upTo(64, (index) => out.view.getUint32(4 * index, true)), expected);
});

test("a maximum of blocks in a cluster changes nothing", () => {
  load(testModule("").replace(") {", ")\n.maxclusterrank 8\n{"));
});
