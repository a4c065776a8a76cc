import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { test } from "node:test";
import { sliceMilliseconds } from "../../src/software/execution/launching/pace.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { type CudaDevice, CudaError, type CudaStream } from "../../mod.ts";
import { Session } from "../../src/session.ts";

const loops: Readonly<Record<string, string>> = {
  "counts by volatile accesses": "LOOP: ld.volatile.global.u32 %r0, [%rd0];\nadd.u32 %r0, %r0, 1;\n" +
    "st.volatile.global.u32 [%rd0], %r0;\nbra LOOP;",
  "stores": "LOOP: st.global.u32 [%rd0], %r0;\nbra LOOP;",
  "does nothing": "LOOP: bra LOOP;",
  "calculates in a loop that ends": "LOOP: mov.u32 %r0, 9;\nINNER: sub.u32 %r0, %r0, 1;\nsetp.ne.u32 %p0, %r0, 0;\n" +
    "@%p0 bra INNER;\nbra LOOP;",
  "meets at a barrier": "LOOP: bar.sync 0;\nbra LOOP;",
};

const moduleOf = (body: string) =>
  `.version 7.0
.target sm_70
.address_size 64
.visible .entry endless(.param .u64 p) {
.reg .pred %p<1>;
.reg .u32 %r<1>;
.reg .u64 %rd<1>;
ld.param.u64 %rd0, [p];
mov.u32 %r0, 0;
${body}
}`;

for (const [what, body] of Object.entries(loops)) {
  test(`while an endless kernel ${what}, timers and other streams run, and an aborted wait names it`, async () => {
    // The kernel ends with its limit, which lets the `Cuda` object be disposed. On a busy machine it may end too early:
    // then it gets more steps.
    for (let stepLimit = 2 ** 25;; stepLimit *= 4) {
      const cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false, stepLimit })));
      const gpu = cuda.device(0);
      const stream = gpu.createStream({ nonBlocking: true });
      const ended = await abortedWait(gpu, stream, body).catch((error) => error);
      const { message: limit } = await assertRejects(() => stream.finished(), CudaError);
      assertMatch(
        limit,
        /kernel endless, .*stopped after \d+ steps, which took \d+\.\d s, perhaps in a loop that never ends/,
      );
      assert(limit.includes("POOLPASS_SOFTWARE_STEPS"), limit);
      cuda[Symbol.dispose]();
      if (ended instanceof CudaError && ended.message.includes("stopped after")) continue;
      if (ended !== undefined) throw ended;
      return;
    }
  });
}

/** Aborts a wait for an endless kernel after a time slice, in which other streams work. */
async function abortedWait(gpu: CudaDevice, stream: CudaStream, body: string): Promise<void> {
  const other = gpu.createStream({ nonBlocking: true });
  const pool = gpu.createPool();
  const [used, free] = [pool.allocate(4, stream), pool.allocate(4, other)];
  gpu.loadModule(moduleOf(body)).kernel("endless").launch({ grid: 1, block: 64, stream }, used);
  const launched = performance.now();
  const controller = new AbortController();
  const wait = stream.finished({ signal: controller.signal });
  wait.catch(() => {});
  free.fill(7, other);
  await other.finished();
  assertEquals(await free.read(Uint8Array, { stream: other }), new Uint8Array(4).fill(7));
  // The message only names a kernel that has run for a time slice.
  while (performance.now() - launched < 2 * sliceMilliseconds) await new Promise((resolve) => setImmediate(resolve));
  controller.abort();
  const error = await wait.then(() => undefined, (error) => error);
  if (!(error instanceof DOMException)) throw error;
  assertEquals(error.name, "AbortError");
  assertMatch(
    error.message,
    /^Waiting for a stream of device 0 was aborted: kernel endless has run for \d+\.\d s$/,
  );
}
