/** Races with asynchronous copies: reads that do not wait for a barrier, and writes that do not wait for reads. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { open, type SanitizerReport } from "../../../mod.ts";
import { test } from "../../support/test.ts";

/** The reports of a kernel of two warps around a body. `%r0` is the thread, \`%p1\` is false in the first. */
async function reportsOf(body: string, { cluster = 1 } = {}): Promise<readonly string[]> {
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver: "software", sanitize: ["race"], onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using memory = pool.allocate(1024);
  memory.fill(1);
  using module = gpu.loadModule(`.version 8.1
.target sm_90
.address_size 64
.visible .entry test(.param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<10>;
  .shared .align 128 .b8 sm[256]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [out]; mov.u32 %r0, %tid.x; setp.ne.u32 %p1, %r0, 0; mov.u32 %r1, sm; shl.b32 %r2, %r0, 2;
  add.u32 %r2, %r1, %r2; mul.wide.u32 %rd2, %r0, 4; add.u64 %rd2, %rd1, %rd2;
  @!%p1 mbarrier.init.shared.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  bar.sync 0;
  ${body}
  ret;
}`);
  module.kernel("test").launch({ grid: cluster, block: 64, cluster }, memory);
  await memory.read(Uint8Array);
  return reports.map(({ message }) => message);
}

const copy = `
  @%p1 bra COPIED;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd1], 256, [bar];
COPIED:`;
const wait = `
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
  @!%p2 bra WAIT;`;
const use = "ld.shared.u32 %r3, [%r2]; st.global.u32 [%rd2+512], %r3;";

test("threads that wait at the barrier may read what a bulk copy has written", async () => {
  assertEquals(await reportsOf(`${copy}${wait} ${use}`), []);
});

test("threads that do not wait for a bulk copy race with it", async () => {
  const reports = await reportsOf(`${copy} ${use}`);
  assertEquals(reports.length, 1);
  assertStringIncludes(reports[0]!, "writes at PTX line 15");
  assertStringIncludes(reports[0]!, "reads at PTX line 16");
});

const fill = "st.shared.u32 [%r2], %r0;";
const send = `
  @%p1 bra SENT;
  cp.async.bulk.global.shared::cta.bulk_group [%rd1], [sm], 256;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
SENT:`;

test("a bulk copy sees what threads have written before a fence between the proxies", async () => {
  for (
    const body of [
      `${fill} fence.proxy.async; bar.sync 0; ${send}`,
      `${fill} fence.proxy.async.shared::cta; bar.sync 0; ${send} bar.sync 0; ${fill} fence.proxy.async; bar.sync 0;
       ${send.replaceAll("SENT", "SENT2")}`,
      `${fill} bar.sync 0; fence.proxy.async; ${send}`,
      `${copy}${wait} ${send}`,
    ]
  ) assertEquals(await reportsOf(body), []);
});

test("a bulk copy of what threads have written needs a fence between the proxies", async () => {
  for (
    const body of [
      `${fill} bar.sync 0; ${send}`,
      `fence.proxy.async; bar.sync 0; ${fill} bar.sync 0; ${send}`,
      `${fill} fence.proxy.async.global; bar.sync 0; ${send}`,
      `${copy}${wait} ${fill} bar.sync 0; ${send}`,
    ]
  ) {
    const reports = await reportsOf(body);
    assertEquals(reports.length, 1, body);
    assertStringIncludes(reports[0]!, "missing-proxy-fence");
    assertStringIncludes(reports[0]!, "fence.proxy.async");
  }
});

test("the lanes of a warp wait for each other before and after they copy a tensor map", async () => {
  const [before, after] = ["@!%p1 st.shared.u32 [sm], 5;", "st.shared.u32 [%r2], %r0;"];
  const copied =
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [sm], 128;";
  const inWarp = (body: string) => `setp.ge.u32 %p3, %r0, 32; @%p3 bra REST; ${body} REST:`;
  assertEquals(await reportsOf(inWarp(`${before} ${copied} ${after}`)), []);
  for (const body of [before, after]) {
    const order = ["ld.shared.u32 %r3, [sm]; st.global.u32 [%rd2], %r3;", body];
    const reports = await reportsOf(inWarp((body === before ? order.reverse() : order).join(" ")));
    assertEquals(reports.length, 1, body);
    assertStringIncludes(reports[0]!, "shared-race");
  }
});

const barrier = "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;";
/** Stores to the other block of the cluster. */
const store = `
  mov.u32 %r4, %cluster_ctarank; xor.b32 %r4, %r4, 1; mapa.shared::cluster.u32 %r5, %r2, %r4;
  st.shared::cluster.u32 [%r5], %r0;`;

test("blocks of a cluster that wait for each other may use each other's shared memory", async () => {
  assertEquals(await reportsOf(`${barrier} ${store} ${barrier} ${use} ${barrier}`, { cluster: 2 }), []);
});

test("a fence for initializations is enough before a relaxed arrival at the barrier of the cluster", async () => {
  const fence = "fence.mbarrier_init.release.cluster;";
  const arrive = `
  @!%p1 mbarrier.init.shared.b64 [sm], 1; ${fence}
  barrier.cluster.arrive.relaxed; barrier.cluster.wait;
  @%p1 bra ARRIVED;
  mov.u32 %r4, %cluster_ctarank; xor.b32 %r4, %r4, 1; mapa.shared::cluster.u32 %r5, %r1, %r4;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];
ARRIVED: ${barrier}`;
  assertEquals(await reportsOf(arrive, { cluster: 2 }), []);
  const unfenced = await reportsOf(arrive.replace(fence, ""), { cluster: 2 });
  assertEquals(unfenced.length > 0, true);
  assertStringIncludes(unfenced[0]!, "shared-race");
});
