/**
 * Makes mistakes that the sanitizer reports, as the environment says. The arguments say how: `LISTEN` for a listener,
 * `dispose` to dispose of the Cuda object, `throw` to do so behind an error, `leave` to throw an error and not to dispose
 * of it, `uncaught` not to catch what that throws, `later` to do so in a promise that nobody awaits, `right` to make
 * none.
 *
 * @module
 */
import process from "node:process";
import { open, SanitizerError, type SanitizerReport } from "../../../mod.ts";

const how = new Set(process.argv.slice(2));
const heard: SanitizerReport[] = [];
const listener = how.has("listen") ? { onReport: (report: SanitizerReport) => void heard.push(report) } : {};

function main(): void {
  const cuda = open({ driver: "software", ...listener });
  const gpu = cuda.device(0);
  const streams = [0, 1].map(() => gpu.createStream({ nonBlocking: true }));
  const buffer = gpu.allocate(64);
  const times = how.has("right") ? 0 : 3;
  for (let time = 0; time < times; time++) fillOnBoth();
  gpu.synchronize();
  buffer.free();
  if (how.has("leave")) throw new TypeError("the program's own");
  if (how.has("dispose")) cuda[Symbol.dispose]();
  if (how.has("throw")) {
    using _cuda = cuda;
    throw new TypeError("the program's own");
  }

  function fillOnBoth(): void {
    gpu.synchronize();
    for (const stream of streams) buffer.fill(1, stream);
  }
}

try {
  if (how.has("later")) void Promise.resolve().then(main);
  else main();
} catch (error) {
  if (how.has("uncaught")) throw error;
  if (error instanceof SuppressedError) {
    const { error: last, suppressed } = error;
    console.log(last instanceof SanitizerError, (suppressed as Error).message);
  } else if (error instanceof SanitizerError) {
    console.log(error.message);
  } else {
    throw error;
  }
}
for (const { kind, count } of heard) console.log(kind, count);
console.log("done");
