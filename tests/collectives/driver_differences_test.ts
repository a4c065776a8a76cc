/** What the guard of collectives asks a driver about itself: whether contexts are shared, and whether loading blocks. */
import { assertEquals, assertThrows } from "@std/assert";
import { SharingError } from "../../mod.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { instructionSupport, SoftwareDriver } from "../../src/software/software_driver.ts";
import { adaptedDriver } from "../support/adapted_driver.ts";
import { test } from "../support/test.ts";
import { createRanks, timeout, warmUp } from "./idle_ranks.ts";

const ptx = ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry nothing() { ret; }";

/** Opens the software device, as if its contexts were shared with other sessions and loading blocked, or not. */
function openAs(contextsAreShared: boolean, loadingBlocks: boolean): Cuda {
  const software = new SoftwareDriver({ devices: 1, peers: true });
  const driver = adaptedDriver(software, { contextsAreShared, loadingBlocks });
  return new Cuda(new Session(driver, { instructionSupport, collectives: () => software.collectives }));
}

for (const contextsAreShared of [true, false]) {
  for (const loadingBlocks of [true, false]) {
    const contexts = contextsAreShared ? "shared contexts" : "contexts of its own";
    const loading = loadingBlocks ? "blocks" : "does not block";
    test(`a driver with ${contexts} whose loading ${loading} waits for a collective in no other calls`, async () => {
      await warmUp();
      using cuda = openAs(contextsAreShared, loadingBlocks);
      using other = openAs(contextsAreShared, loadingBlocks);
      const gpu = cuda.device(0);
      const waits: (readonly [call: () => void, isWaiting: boolean])[] = [
        [() => gpu.loadModule(ptx), loadingBlocks],
        [() => other.device(0).loadModule(ptx), contextsAreShared && loadingBlocks],
        [() => other.device(0).synchronize(), contextsAreShared],
        [() => gpu.synchronize(), true],
      ];
      using stream = gpu.createStream({ nonBlocking: true });
      using array = gpu.createPool().allocateArray(Float32Array, 4);
      gpu.synchronize();
      for (const [index, [call, isWaiting]] of waits.entries()) {
        const ranks = await createRanks({ cuda, gpu }, [timeout, timeout]);
        ranks[0]!.allReduce(array, array, "sum", { stream });
        try {
          call();
        } catch (error) {
          if (!(error instanceof SharingError)) throw error;
        }
        // Nothing else polls the communicator before the call has returned.
        assertEquals(String(ranks[0]).includes("failed"), isWaiting, `call ${index}`);
        if (index < waits.length - 1) assertThrows(() => stream.synchronize(), SharingError, "did not take part");
        for (const rank of ranks) await rank.abort();
      }
    });
  }
}
