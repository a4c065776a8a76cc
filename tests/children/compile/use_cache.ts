/**
 * Reads and writes the same entries of a compile cache over and over, and prints "wrong" for each that is not whole.
 * Arguments: the folder, the number of times or "Infinity", the limit of the cache in bytes.
 *
 * @module
 */
import process from "node:process";
import { CompileCache } from "../../../src/compile/cache/compile_cache.ts";

const [folder, times, byteLimit] = process.argv.slice(2) as [string, string, string];
const cache = new CompileCache(folder, { byteLimit: Number(byteLimit) });
console.log("ready");
for (let time = 0; time < Number(times); time++) {
  const key = `key${time % 4}`;
  const ptx = key.repeat(5000);
  const known = cache.get(key);
  if (known !== undefined && (known.ptx !== ptx || known.cubin?.length !== 10_000)) console.log("wrong");
  cache.set(key, { ptx, cubin: new Uint8Array(10_000), log: "", loweredNames: new Map() });
}
