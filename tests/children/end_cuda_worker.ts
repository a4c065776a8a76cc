// Opens CUDA in a Worker, ends the Worker, and prints the names of CUDA's libraries that are then still loaded.
import { readFileSync } from "node:fs";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { open } from "../../mod.ts";

if (isMainThread) {
  const worker = new Worker(new URL(import.meta.url));
  const exited = new Promise((resolve) => worker.once("exit", resolve));
  await new Promise((resolve) => worker.once("message", resolve));
  await worker.terminate();
  await exited;
  const names = readFileSync("/proc/self/maps", "utf8").matchAll(/libcuda(?:rt)?\.so\.\d+/g);
  console.log([...new Set([...names].map(([name]) => name))].sort().join(", "));
} else {
  using cuda = open({ driver: "cuda" });
  parentPort!.postMessage(cuda.driverVersion);
}
