/**
 * Loads the modules that come, as a list in JSON, on standard input, and prints how many milliseconds it took: a program
 * of its own, so that nothing of the compiler was ever run before.
 *
 * @module
 */
import { open } from "../mod.ts";

const modules: readonly string[] = JSON.parse(await new Response(Deno.stdin.readable).text());
using cuda = open({ driver: "software" });
const device = cuda.device(0);
using loaded = new DisposableStack();
const start = performance.now();
for (const ptx of modules) loaded.use(device.loadModule(ptx));
console.log(performance.now() - start);
