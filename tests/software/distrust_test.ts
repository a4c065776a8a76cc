import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { writeAt } from "../../ffi/native/shim/descriptors.ts";
import { eventFlags } from "../../src/driver.ts";
import { CudaError } from "../../src/support/errors.ts";
import type { SoftwareDriver } from "../../src/software/software_driver.ts";
import { Scheduler, Stream } from "../../src/software/execution/streams.ts";
import { testSoftware } from "../support/software_devices.ts";

const trapPtx = ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry stop() { trap; ret; }\n";
/** Offset of an event's count of records in its file. */
const countOffset = 65536;

/** Returns a stream with work that waits for another process and completes at the query number `times`. */
function waitForOther(times: number) {
  const scheduler = new Scheduler((_device, cause) => {
    throw cause;
  });
  const stream = new Stream(0, { isDefault: true });
  scheduler.addStream(stream);
  let asked = 0;
  const other = {
    get done() {
      return ++asked > times;
    },
  };
  return { scheduler, work: scheduler.enqueue(stream, () => true, { after: [other] }) };
}

test("another process may finish between two polls while the host waits", () => {
  for (const times of [1, 2, 3, 4]) {
    const { scheduler, work } = waitForOther(times);
    scheduler.runUntil(() => work.done);
    assert(work.done);
    scheduler.close();
  }
});

test("another process may finish between two polls while nothing waits", async () => {
  for (const times of [1, 2, 3, 4]) {
    const { scheduler, work } = waitForOther(times);
    const start = performance.now();
    while (!work.done && performance.now() < start + 5000) await new Promise((resolve) => setTimeout(resolve, 1));
    assert(work.done, `asked ${times} times`);
    scheduler.close();
  }
});

/** Opens an interprocess event, with a function that writes to its page as a malicious process could. */
function openEvent(driver: SoftwareDriver) {
  const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming | eventFlags.interprocess);
  const fd = new DataView(driver.ipcGetEventHandle(event).buffer).getUint32(12, true);
  const setCount = (count: bigint) =>
    writeAt(fd, new Uint8Array(new BigInt64Array([count]).buffer), { offset: countOffset });
  return { event, setCount };
}

testSoftware("no value that another process writes to an event's count stops this process", (_cuda, driver) => {
  const { event, setCount } = openEvent(driver);
  for (const count of [-5n, 2n ** 63n - 1n, -(2n ** 63n), -1n]) {
    setCount(count);
    driver.eventRecord(0, event, 0n);
    driver.streamSynchronize(0, 0n);
    assert(driver.memGetInfo(0).total > 0);
  }
  driver.eventDestroy(0, event);
});

testSoftware("a wait for another process fails when the devices are lost", (_cuda, driver) => {
  const { event, setCount } = openEvent(driver);
  const module = driver.moduleLoadData(0, trapPtx);
  const kernel = driver.moduleGetFunction(module, "stop");
  setCount(7n);
  driver.launchKernel(driver.createKernelLaunch(0, kernel, 0));
  const error = assertThrows(() => driver.eventSynchronize(event), CudaError);
  assertEquals(error.code, "cudaErrorLaunchFailure");
  assertThrows(() => driver.eventSynchronize(event), CudaError, "cudaErrorLaunchFailure");
});
