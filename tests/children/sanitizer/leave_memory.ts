/**
 * Allocates memory and ends. The arguments say how: `free` frees the memory before, `exit`, `fail` and `throw` end the
 * process in the middle, `using` disposes of the Cuda object.
 *
 * @module
 */
import process from "node:process";
import { open } from "../../../mod.ts";

const how = new Set(process.argv.slice(2));

function main(): void {
  const cuda = open({ driver: "software", sanitize: ["leak"] });
  using stack = new DisposableStack();
  if (how.has("using")) stack.use(cuda);
  const buffer = cuda.device(0).allocate(64);
  if (how.has("free")) buffer.free();
  if (how.has("exit")) process.exit();
  if (how.has("fail")) process.exit(3);
  if (how.has("throw")) throw new Error("the program's own");
}

main();
console.log("done");
