/**
 * Adds to, or doubles, numbers of which a fill has written all bytes or not, reads the result, and prints the kinds of
 * what the sanitizer reports: `half_written.ts KERNEL BYTES`.
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import { open } from "../../../mod.ts";

const [kernel = "", bytes = ""] = process.argv.slice(2);
const ptx = readFileSync(new URL("../../sanitizer/yardsticks/samples.ptx", import.meta.url), "utf8");
const count = 64;
using cuda = open({
  driver: "software",
  sanitize: ["initialization"],
  onReport: ({ kind }) => console.log(kind),
});
const gpu = cuda.device(0);
using pool = gpu.createPool();
using from = pool.allocate(4 * count);
using to = pool.allocate(4 * count);
from.fill(0, undefined, { byteLength: Number(bytes) });
using module = gpu.loadModule(ptx);
const isInPlace = kernel === "add_index";
module.kernel(kernel).launch(
  { grid: isInPlace ? 2 : 1, block: isInPlace ? 32 : 64 },
  ...isInPlace ? [from] : [from, to, count],
);
await (isInPlace ? from : to).read(Uint8Array);
console.log("done");
