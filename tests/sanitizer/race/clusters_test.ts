/** Races between the blocks of a cluster in shared memory, and with its end. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { open, type SanitizerReport } from "../../../mod.ts";
import { test } from "../../support/test.ts";

const threads = 64;

/**
 * The reports of a kernel around a body, each with its kind and the numbers of the lines in the body that it names.
 * `%r0` is the thread, `%r1` its word of shared memory, `%r2` that of the next block of the cluster and `%r3` that of
 * the thread's mirror image in the own block; `bar` is a barrier for one arrival and 256 bytes, and `%r4` the one of the
 * next block. `%p1` is false in the first thread of a block, and `%p3` in the block of rank 0.
 */
async function reportsOf(body: readonly string[], { blocks = 2 } = {}): Promise<string[]> {
  const head = `.version 8.1
.target sm_90
.address_size 64
.visible .entry test(.param .u64 out) {
  .reg .pred %p<6>; .reg .b32 %r<20>; .reg .b64 %rd<10>;
  .shared .align 128 .b32 sm[64]; .shared .align 8 .b64 bar; .shared .align 8 .b64 other;
  ld.param.u64 %rd1, [out]; mov.u32 %r0, %tid.x; setp.ne.u32 %p1, %r0, 0; mov.u32 %r1, sm; shl.b32 %r5, %r0, 2;
  sub.u32 %r3, 252, %r5; add.u32 %r3, %r3, %r1; add.u32 %r1, %r5, %r1;
  mov.u32 %r6, %cluster_ctarank; setp.ne.u32 %p3, %r6, 0; add.u32 %r7, %r6, 1; mov.u32 %r8, %cluster_nctarank;
  rem.u32 %r7, %r7, %r8; mapa.shared::cluster.u32 %r2, %r1, %r7;
  mov.u32 %r9, bar; mapa.shared::cluster.u32 %r4, %r9, %r7;
  mov.u32 %r10, other; mapa.shared::cluster.u32 %r11, %r10, %r7;
  @!%p1 mbarrier.init.shared.b64 [bar], 1; @!%p1 mbarrier.init.shared.b64 [other], 1; bar.sync 0;
`;
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver: "software", sanitize: ["race"], onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using out = pool.allocate(4 * threads * blocks);
  using module = gpu.loadModule(`${head}${body.join("\n")}\nret; }`);
  module.kernel("test").launch({ grid: 2 * blocks, block: threads, cluster: blocks }, out);
  await out.read(Uint8Array);
  const first = head.split("\n").length;
  return reports.map(({ kind, accesses, message }) => {
    assertStringIncludes(message, "cluster");
    return `${kind} ${accesses.map(({ source }) => Number(/PTX line (\d+)/.exec(source!)![1]) - first).sort()}`;
  }).sort();
}

const sync = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";
const arrive = "barrier.cluster.arrive.release.aligned;", wait = "barrier.cluster.wait.acquire.aligned;";
const relaxed = "barrier.cluster.arrive.relaxed.aligned;";
const store = "st.shared::cluster.u32 [%r2], %r0;";
const load = "ld.shared::cluster.u32 %r12, [%r2];";
const storeOwn = "st.shared.u32 [%r1], %r6;";
const loadOwn = "ld.shared.u32 %r12, [%r1];", loadMirror = "ld.shared.u32 %r12, [%r3];";

test("blocks wait for each other before and behind accesses to shared memory of the cluster", async () => {
  assertEquals(await reportsOf([sync, store, sync, loadMirror]), []);
  assertEquals(await reportsOf([storeOwn, sync, load, sync, storeOwn]), []);
  assertEquals(await reportsOf([sync, store, sync, loadMirror], { blocks: 4 }), []);
  assertEquals(await reportsOf([storeOwn, sync, load, arrive, "add.u32 %r12, %r12, 1;", wait]), []);
});

test("accesses of different blocks that no barrier orders race", async () => {
  assertEquals(await reportsOf([sync, store, loadMirror, sync]), ["shared-race 1,2"]);
  assertEquals(await reportsOf([sync, storeOwn, load, sync]), ["shared-race 1,2"]);
  assertEquals(await reportsOf([sync, store, "bar.sync 0;", loadMirror, sync]), ["shared-race 1,3"]);
  assertEquals(
    await reportsOf([sync, arrive, store, wait, loadMirror, sync]),
    ["shared-race 2,4"],
    "after the arrival",
  );
  assertEquals(await reportsOf([sync, store, relaxed, wait, loadMirror, sync]), ["shared-race 1,4"]);
});

test("accesses of one block between an arrival and the wait after it race", async () => {
  for (const blocks of [1, 2]) {
    const reports = (...body: string[]) => reportsOf(body, { blocks });
    assertEquals(await reports(storeOwn, arrive, "add.u32 %r12, %r12, 1;", wait, loadMirror), []);
    assertEquals(await reports(arrive, storeOwn, wait, sync, loadMirror), []);
    assertEquals(await reports(arrive, storeOwn, wait, "bar.sync 0;", loadMirror), []);
    assertEquals(await reports(arrive, storeOwn, "bar.sync 0;", wait, loadMirror), []);
    assertEquals(await reports(arrive, storeOwn, wait, loadMirror), ["shared-race 1,3"]);
    assertEquals(await reports(storeOwn, arrive, loadMirror, wait), ["shared-race 0,2"]);
    assertEquals(await reports(storeOwn, relaxed, wait, loadMirror), ["shared-race 0,3"]);
    assertEquals(await reports(storeOwn, "bar.sync 0;", relaxed, wait, loadMirror), []);
    const init = "@!%p1 mbarrier.init.shared.b64 [sm], 64;", use = "mbarrier.arrive.shared.b64 _, [sm];";
    const fence = "@!%p1 fence.mbarrier_init.release.cluster;";
    assertEquals(await reports(init, fence, relaxed, wait, use), []);
    assertEquals(await reports(init, relaxed, wait, use), ["shared-race 0,3"]);
  }
});

test("a fence orders what a relaxed arrival does not", async () => {
  const fence = "fence.acq_rel.cluster;";
  assertEquals(await reportsOf([relaxed, wait, store, fence, relaxed, wait, loadMirror, sync]), []);
  assertEquals(await reportsOf([sync, fence, store, relaxed, wait, loadMirror, sync]), ["shared-race 2,5"]);
});

test("a block does not access another before that has started", async () => {
  assertEquals(await reportsOf([store, sync]), ["unstarted-block 0"]);
  assertEquals(await reportsOf([relaxed, wait, store, sync]), []);
});

test("a block does not exit while others access its shared memory", async () => {
  assertEquals(await reportsOf([sync, store]), ["exited-block 1"]);
  assertEquals(await reportsOf([sync, load]), ["exited-block 1"]);
  assertEquals(await reportsOf([sync, `@%p3 bra END; ${load}`, "END:"]), ["exited-block 1"]);
  assertEquals(await reportsOf([sync, load, relaxed, wait]), ["exited-block 1"]);
});

/** Waits for a phase of a barrier. */
const until = (barrier: string, label: string, order = "") =>
  `${label}: mbarrier.try_wait.parity${order}.shared::cta.b64 %p2, [${barrier}], 0; @!%p2 bra ${label};`;
const expect = "@!%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;";

test("an mbarrier orders asynchronous stores of another block", async () => {
  const send = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r2], %r0, [%r4];";
  assertEquals(await reportsOf([expect, sync, send, until("bar", "WAIT"), loadMirror]), []);
  assertEquals(await reportsOf([expect, sync, send, loadMirror, until("bar", "WAIT")]), ["shared-race 2,3"]);
  assertEquals(await reportsOf([expect, sync, send]), ["exited-block 2"]);
});

test("an arrival at the mbarrier of another block orders earlier accesses", async () => {
  const tell = (order = "") => `bar.sync 0; @!%p1 mbarrier.arrive${order}.shared::cluster.b64 _, [%r4];`;
  for (const [release, acquire] of [["", ""], [".release.cluster", ".acquire.cluster"]]) {
    assertEquals(await reportsOf([sync, store, tell(release), until("bar", "WAIT", acquire), loadMirror]), []);
  }
  assertEquals(await reportsOf([sync, store, tell(), loadMirror, until("bar", "WAIT")]), ["shared-race 1,3"]);
  assertEquals(await reportsOf([sync, tell(), store, until("bar", "WAIT"), loadMirror, sync]), ["shared-race 2,4"]);
});

test("atomic operations of the cluster do not race with each other", async () => {
  const add = "atom.relaxed.cluster.shared::cluster.add.u32 %r12, [%r2], 1;";
  const addOwn = "atom.relaxed.cluster.shared.add.u32 %r12, [%r1], 1;";
  assertEquals(await reportsOf([storeOwn, sync, add, addOwn, sync, loadMirror]), []);
  assertEquals(await reportsOf([storeOwn, sync, add, loadOwn, sync]), ["shared-race 2,3"]);
});

test("an atomic operation that a GPU divides in another block's shared memory races", async () => {
  // All threads of a block update the same word.
  const update = (operation: string, register: string) =>
    `mapa.shared::cluster.u32 %r12, %r10, %r7; atom.relaxed.cluster.shared::cluster.${operation} ${register}, [%r12], ` +
    `${register}${operation.startsWith("cas") ? `, ${register}` : ""};`;
  const reports = (...body: string[]) => reportsOf(["mov.b64 %rd5, 5; mov.u32 %r13, 5;", sync, ...body, sync]);
  for (const operation of ["min.u64", "max.s64", "xor.b64"]) {
    assertEquals(await reports(update(operation, "%rd5")), ["shared-race 2,2"], operation);
  }
  for (const operation of ["add.u64", "exch.b64", "cas.b64"]) {
    assertEquals(await reports(update(operation, "%rd5")), [], operation);
  }
  assertEquals(await reports(update("max.u32", "%r13")), []);
  assertEquals(await reports(update("add.noftz.f16x2", "%r13")), ["shared-race 2,2"]);
  assertEquals(await reports("atom.relaxed.cluster.shared.max.u64 %rd5, [other], %rd5;"), []);
});

test("a copy to several blocks is awaited by each", async () => {
  const copy = "mov.u16 %h1, 3; @%p3 bra SENT; @%p1 bra SENT; cp.async.bulk.shared::cluster.global.mbarrier::" +
    "complete_tx::bytes.multicast::cluster [sm], [%rd1], 256, [bar], %h1;";
  const declare = ".reg .b16 %h<4>;";
  assertEquals(await reportsOf([declare, expect, sync, copy, "SENT:", until("bar", "WAIT"), loadMirror]), []);
  assertEquals(await reportsOf([declare, expect, sync, copy, "SENT:", loadMirror, until("bar", "WAIT")]), [
    "shared-race 3,5",
  ]);
});
