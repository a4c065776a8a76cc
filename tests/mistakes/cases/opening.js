import { Cuda, open } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Opening", import.meta.url);

mistake("the driver as a string", () => {
  open("cuda");
});

mistake("a driver that does not exist", () => {
  open({ driver: "gpu" });
});

mistake("a driver in capitals", () => {
  open({ driver: "Software" });
});

mistake("null for the driver", () => {
  open({ driver: null });
});

mistake("null for the options", () => {
  open(null);
});

mistake("a misspelt driver option", () => {
  open({ drvier: "software" });
});

mistake("devices instead of softwareDevices", () => {
  open({ driver: "software", devices: 4 });
});

mistake("the number of devices as a string", () => {
  open({ softwareDevices: "4" });
});

mistake("a hundred thousand devices", () => {
  open({ softwareDevices: 100_000 });
});

mistake("the number of threads as a string", () => {
  open({ softwareThreads: "4" });
});

mistake("no threads", () => {
  open({ softwareThreads: 0 });
});

mistake("a thousand threads", () => {
  open({ softwareThreads: 1000 });
});

mistake("true as libcudart", () => {
  open({ driver: "cuda", cudart: true });
});

mistake("new Cuda", () => {
  new Cuda();
});

mistake("POOLPASS_DRIVER=gpu", ({ withEnvironment }) => {
  withEnvironment({ POOLPASS_DRIVER: "gpu" }, () => open());
});

mistake("POOLPASS_SOFTWARE_DEVICES=four", ({ withEnvironment }) => {
  withEnvironment({ POOLPASS_SOFTWARE_DEVICES: "four" }, () => open());
});

mistake("POOLPASS_SOFTWARE_DEVICES=0", ({ withEnvironment }) => {
  withEnvironment({ POOLPASS_SOFTWARE_DEVICES: "0" }, () => open());
});

mistake("POOLPASS_SOFTWARE_THREADS=all", ({ withEnvironment }) => {
  withEnvironment({ POOLPASS_SOFTWARE_THREADS: "all" }, () => open());
});

mistake("POOLPASS_SOFTWARE_THREADS=0", ({ withEnvironment }) => {
  withEnvironment({ POOLPASS_SOFTWARE_THREADS: "0" }, () => open());
});

mistake("POOLPASS_SOFTWARE_PEERS=false", ({ withEnvironment }) => {
  withEnvironment({ POOLPASS_SOFTWARE_PEERS: "false" }, () => open());
});

mistake("POOLPASS_DEBUG=true", ({ withEnvironment }) => {
  const cuda = withEnvironment({ POOLPASS_DEBUG: "true" }, () => open());
  cuda.device(0).createPool(); // not disposed: POOLPASS_DEBUG=1 would say so
  cuda[Symbol.dispose]();
});

mistake("a misspelt environment variable", ({ withEnvironment }) => {
  withEnvironment({ POOLPASS_SOFTWARE_DEVICE: "4" }, () => open());
});

mistake("no visible device", ({ withEnvironment }) => {
  withEnvironment({ CUDA_VISIBLE_DEVICES: "" }, () => open());
});
