import { assertEquals } from "@std/assert";
import { test } from "node:test";
import * as poolpass from "../mod.ts";

test("mod.ts exports the public vocabulary, and no value besides", () => {
  assertEquals(Object.keys(poolpass).sort(), [
    "Cuda",
    "CudaDevice",
    "CudaError",
    "CudaEvent",
    "CudaKernel",
    "CudaModule",
    "CudaStream",
    "DeviceArray",
    "DeviceBuffer",
    "HostBuffer",
    "ImportedMemoryPool",
    "MemoryPool",
    "ShareableHandle",
    "SharingError",
    "UnixListener",
    "UnixSocket",
    "open",
  ]);
});
