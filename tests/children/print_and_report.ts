// Prints much output, and a line to standard error. With the argument "nonblocking", standard output rejects what does
// not fit into the pipe.
import process from "node:process";
import { dlopen } from "../../ffi/native/host.ts";
import { writeStandardError, writeStandardOutput } from "../../src/software/execution/printing/standard_output.ts";

const setStatusFlags = 4;
const nonblocking = 0o4000;

if (process.argv[2] === "nonblocking") {
  const libc = dlopen("libc.so.6", { fcntl: { parameters: ["i32", "i32", "i32"], result: "i32" } });
  if (libc.symbols.fcntl!(1, setStatusFlags, nonblocking) !== 0) throw new Error("Cannot set the flags");
}
const encoder = new TextEncoder();
writeStandardOutput(encoder.encode(`${"é".repeat(500_000)}\n`));
for (let line = 0; line < 20_000; line++) writeStandardOutput(encoder.encode(`line ${line}\nand the `));
writeStandardOutput(encoder.encode("end"));
writeStandardError(encoder.encode("reported\n"));
