/**
 * What a device makes of `mbarrier` objects that are used in unusual ways.
 *
 * @module
 */
import type { CudaDevice } from "../../../mod.ts";
import { type Cases, run } from "./kernel_body.ts";

/** Arrivals, pending bytes and phases. */
export const barrierCases: Cases = {
  ...Object.fromEntries(
    Object.entries({
      "more arrivals than are pending": "mbarrier.init.shared.b64 [bar], 4; mbarrier.arrive.shared.b64 _, [bar], 5;",
      "more arrivals than are pending, one by one":
        "mbarrier.init.shared.b64 [bar], 4; mbarrier.arrive.shared.b64 _, [bar], 3; mbarrier.arrive.shared.b64 _, [bar], 2;",
      "a whole phase after an asynchronous arrival": `mbarrier.init.shared.b64 [bar], 4;
        ${
        "cp.async.mbarrier.arrive.noinc.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar], 3; mbarrier.arrive.shared.b64 _, [bar], 4;"
          .repeat(20)
      }`,
      "a whole phase after an asynchronous arrival that counts itself": `mbarrier.init.shared.b64 [bar], 4;
        ${"cp.async.mbarrier.arrive.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar], 4;".repeat(20)}`,
      "noComplete that completes":
        "mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.noComplete.shared.b64 %rd3, [bar], 1;",
      "bytes that nobody expects":
        "mbarrier.complete_tx.shared.b64 [bar], 64; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;",
      "a drop of all":
        "mbarrier.init.shared.b64 [bar], 4; mbarrier.arrive_drop.shared.b64 _, [bar], 4; mbarrier.arrive.shared.b64 _, [bar], 1;",
      "arrival after inval": "mbarrier.inval.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar], 1;",
      "the count 1048575": "mbarrier.init.shared.b64 [bar], 1048575; mbarrier.arrive.shared.b64 _, [bar], 1048575;",
      "bytes up to the limit":
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048574; mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1;",
      "bytes beyond the limit":
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048575; mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1;",
      "1048576 bytes at once": "mov.u32 %r9, 1048576; mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], %r9;",
      "1048576 bytes with an arrival": "mov.u32 %r9, 1048576; mbarrier.arrive.expect_tx.shared.b64 _, [bar], %r9;",
      "1048575 bytes and 2":
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048575; mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 2;",
      "complete bytes up to the limit": "mbarrier.complete_tx.shared.b64 [bar], 1048575;",
      "complete bytes beyond the limit":
        "mbarrier.complete_tx.shared.b64 [bar], 1048575; mbarrier.complete_tx.shared.b64 [bar], 1;",
      "expected bytes of the next phase":
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048575; mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048575;",
    }).map(([name, body]) => [
      `barrier: ${name}`,
      (gpu: CudaDevice) =>
        run(
          gpu,
          `${body} mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0; selp.u32 %r9, 1, 0, %p1; st.global.u32 [%rd1], %r9;
           mbarrier.test_wait.parity.shared.b64 %p1, [bar], 1; selp.u32 %r9, 1, 0, %p1; st.global.u32 [%rd1+4], %r9;`,
        ),
    ]),
  ),
  ...Object.fromEntries(
    Object.entries({
      "a state of the phase before the last":
        "mbarrier.arrive.shared.b64 %rd3, [bar], 1; mbarrier.arrive.shared.b64 %rd4, [bar], 1; mbarrier.arrive.shared.b64 _, [bar], 1;",
      "a state of the current phase":
        "mov.b64 %rd4, 0; mbarrier.arrive.shared.b64 _, [bar], 1; mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive.shared.b64 %rd3, [bar], 1;",
    }).map(([name, body]) => [
      `phase: ${name}`,
      (gpu: CudaDevice) =>
        run(
          gpu,
          `${body} mbarrier.test_wait.shared.b64 %p1, [bar], %rd3; selp.u32 %r9, 1, 0, %p1; st.global.u32 [%rd1], %r9;
           mbarrier.try_wait.shared.b64 %p1, [bar], %rd3, 100; selp.u32 %r9, 1, 0, %p1; st.global.u32 [%rd1+4], %r9;`,
        ).slice(0, 16),
    ]),
  ),
};
