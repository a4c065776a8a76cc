// Prints the number of threads by default, with a variable, and with an option besides the variable.
import { open, type OpenOptions } from "../../../mod.ts";
import { dlopen } from "../../../ffi/native/host.ts";
import { sessionOfDevice } from "../../../src/objects/device_sessions.ts";
import type { SoftwareDriver } from "../../../src/software/software_driver.ts";

const { setenv } = dlopen("libc.so.6", {
  setenv: { parameters: ["buffer", "buffer", "i32"], result: "i32" },
}).symbols;
const bytes = (string: string) => new TextEncoder().encode(`${string}\0`);

function threads(options: OpenOptions = {}): number {
  using cuda = open({ driver: "software", ...options });
  return (sessionOfDevice(cuda.device(0)).driver as SoftwareDriver).threads;
}

const counts = [threads()];
setenv!(bytes("POOLPASS_SOFTWARE_THREADS"), bytes("5"), 1);
counts.push(threads(), threads({ softwareThreads: 3 }));
console.log(counts.join());
