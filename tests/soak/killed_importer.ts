// Maps "kept" and "freed", writes the GPU's clock to both without pause, and waits to be killed: killed_importer.ts PATH
// MILLISECONDS ENDING. With the ending "fork" it leaves a child process that was forked and calls no exec.
import { dlopen } from "../../ffi/host.ts";
import { Importer, open } from "../../mod.ts";
import { StampKernels } from "../children/sharing/stamp_kernels.ts";

const [path, milliseconds, ending] = Deno.args as [string, string, string];
const cuda = open();
const stream = cuda.device(0).createStream({ nonBlocking: true });
const importer = await Importer.connect(cuda, path);
const [kept, freed] = await Promise.all(
  ["kept", "freed"].map((name) => importer.offer(name).then((offer) => offer.map({ stream }))),
);
const { fork, pause } = dlopen("libc.so.6", {
  fork: { parameters: [], result: "i32" },
  pause: { parameters: [], result: "i32" },
}).symbols;
new StampKernels(cuda).stamp(stream, [kept!, freed!], Number(milliseconds));
let child = 0;
if (ending === "fork") {
  child = fork!() as number;
  while (child === 0) pause!();
}
console.log(JSON.stringify({ child, mps: isMps() }));
await stream.finished();
// The kernels have ended before anybody killed this process, which the other process reports.
await new Promise(() => setInterval(() => {}, 1000));

function isMps(): boolean {
  try {
    return cuda.device(0).attribute("mpsEnabled") === 1;
  } catch {
    return false;
  }
}
