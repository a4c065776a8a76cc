// Maps "kept" and "freed", writes the GPU's clock to both without pause, and waits to be killed: killed_importer.ts PATH
// MILLISECONDS [LIBRARY]. With LIBRARY, which is built from fork_and_wait.c, it leaves a forked child that calls no exec.
import { dlopen } from "../../ffi/native/host.ts";
import { Importer, open } from "../../mod.ts";
import { StampKernels } from "../children/sharing/stamp_kernels.ts";

const [path, milliseconds, library] = Deno.args as [string, string, string | undefined];
const cuda = open();
const stream = cuda.device(0).createStream({ nonBlocking: true });
const importer = await Importer.connect(cuda, path);
const [kept, freed] = await Promise.all(
  ["kept", "freed"].map((name) => importer.offer(name).then((offer) => offer.map({ stream }))),
);
new StampKernels(cuda).stamp(stream, [kept!, freed!], Number(milliseconds));
const child = library === undefined ? 0 : fork(library);
console.log(JSON.stringify({ child, mps: cuda.device(0).usesMps === true }));
await stream.finished();
// The kernels have ended before anybody killed this process, which the other process reports.
await new Promise(() => setInterval(() => {}, 1000));

function fork(library: string): number {
  return dlopen(library, { fork_and_wait: { parameters: [], result: "i32" } }).symbols.fork_and_wait!() as number;
}
