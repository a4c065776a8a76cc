/**
 * Makes a mistake that the sanitizer reports, and ends. Arguments: "exit", "caught" or "end".
 *
 * @module
 */
import process from "node:process";
import { open, SanitizerError } from "../../../mod.ts";

const cuda = open({ driver: "software", sanitize: true });
const gpu = cuda.device(0);
const buffer = gpu.allocate(64);
for (const byte of [1, 2]) buffer.fill(byte, gpu.createStream({ nonBlocking: true }));
buffer.free();
switch (process.argv[2]) {
  case "exit":
    process.exit();
    break;
  case "caught":
    try {
      cuda[Symbol.dispose]();
    } catch (error) {
      if (!(error instanceof SanitizerError)) throw error;
    }
}
