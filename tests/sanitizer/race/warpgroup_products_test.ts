/** Races with products of matrices in shared memory: operands that are written too late, or too early again. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { open, type SanitizerReport } from "../../../mod.ts";
import { test } from "../../support/test.ts";
import { formOf } from "../../compiler/tensor_cores/problems.ts";
import { programOf } from "../../compiler/tensor_cores/program.ts";

const { kernel, inputs, outputs, threads } = programOf(
  formOf("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 a:128 b:transposed b:64"),
);

/** The reports of a kernel that writes its operands, multiplies and stores the product. */
async function reportsOf(ptx: string): Promise<readonly SanitizerReport[]> {
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver: "software", sanitize: ["race"], onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using source = pool.allocate(4 * inputs);
  source.fill(0);
  using out = pool.allocate(4 * outputs);
  using module = gpu.loadModule(ptx);
  module.kernel("product").launch({ grid: 1, block: threads }, out, source);
  await out.read(Uint32Array);
  return reports;
}

test("operands of a product are written before a fence and a barrier", async () => {
  const [fence, barrier] = ["fence.proxy.async.shared::cta;", "bar.sync 0;"];
  assertEquals(await reportsOf(kernel), []);
  const unfenced = await reportsOf(kernel.replace(fence, ""));
  assertEquals([...new Set(unfenced.map(({ kind }) => kind))], ["missing-proxy-fence"]);
  assertStringIncludes(unfenced[0]!.message, "fence.proxy.async");
  const early = await reportsOf(kernel.replace(barrier, ""));
  assertEquals([...new Set(early.map(({ kind }) => kind))], ["shared-race"]);
});

test("operands of a product are not overwritten before it has been awaited", async () => {
  const wait = "wgmma.wait_group.sync.aligned 0;";
  const write = "st.shared.b32 [%r2], 0;";
  const byOne = `setp.ne.u32 %p0, %r0, 96; @%p0 bra REST; ${write} REST:`;
  assertEquals(await reportsOf(kernel.replace(wait, `${wait} ${byOne}`)), []);
  const early = await reportsOf(kernel.replace(wait, `${byOne} ${wait}`));
  assertEquals([...new Set(early.map(({ kind }) => kind))], ["shared-race"]);
});
