import { open } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Devices", import.meta.url);

mistake("no device number", ({ cuda }) => {
  cuda.device();
});

mistake("a device number as a string", ({ cuda }) => {
  cuda.device("0");
});

mistake("a device's name as in PyTorch", ({ cuda }) => {
  cuda.device("cuda:0");
});

mistake("a device that does not exist", ({ cuda }) => {
  cuda.device(2);
});

mistake("a UUID that does not exist", ({ cuda }) => {
  cuda.device("GPU-14e79943-d9b5-ef5b-1063-3010823d4b49");
});

mistake("an attribute with other capitals", ({ gpu }) => {
  gpu.attribute("multiprocessorCount");
});

mistake("an attribute under its runtime name", ({ gpu }) => {
  gpu.attribute("cudaDevAttrMultiProcessorCount");
});

mistake("an attribute under its driver name", ({ gpu }) => {
  gpu.attribute("CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK");
});

mistake("an attribute by its number", ({ gpu }) => {
  gpu.attribute(16);
});

mistake("no attribute", ({ gpu }) => {
  gpu.attribute();
});

mistake("a field of cudaDeviceProp", ({ gpu }) => {
  gpu.attribute("totalGlobalMem");
});

mistake("peer access by a device number", ({ gpu }) => {
  gpu.canAccessPeer(1);
});

mistake("peer access to the device itself", ({ gpu }) => {
  gpu.enablePeerAccess(gpu);
});

mistake("peer access enabled twice", ({ gpu, peer }) => {
  gpu.enablePeerAccess(peer);
  gpu.enablePeerAccess(peer);
});

mistake("peer access to a device of another open()", ({ gpu }) => {
  gpu.enablePeerAccess(open().device(1));
});

mistake("the pool of another device as the current pool", ({ gpu, peer }) => {
  gpu.currentPool = peer.createPool();
});

mistake("undefined as the current pool", ({ gpu }) => {
  gpu.currentPool = undefined;
});

mistake("a timeout for a device's work", async ({ gpu }) => {
  await gpu.finished(1000);
});

mistake("a limit under its runtime name", ({ gpu }) => {
  gpu.limits.cudaLimitStackSize = 4096;
});

mistake("a limit as text", ({ gpu }) => {
  gpu.limits.mallocHeapSize = "64 MiB";
});

mistake("a stack that is larger than local memory", ({ gpu }) => {
  gpu.limits.stackSize = 2 ** 30;
});

mistake("the limits replaced", ({ gpu }) => {
  gpu.limits = { stackSize: 4096 };
});
