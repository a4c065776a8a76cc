/**
 * Loads the modules of a JSON list on standard input and prints how many milliseconds that took. This is a separate
 * program, so that no part of the compiler has run before.
 *
 * @module
 */
import { open } from "../../mod.ts";

const modules: readonly string[] = JSON.parse(await new Response(Deno.stdin.readable).text());
using cuda = open({ driver: "software" });
const device = cuda.device(0);
using loaded = new DisposableStack();
const start = performance.now();
for (const ptx of modules) loaded.use(device.loadModule(ptx));
console.log(performance.now() - start);
