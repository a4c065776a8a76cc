/**
 * A client of a store that goes on until it is killed: `store_user.ts DRIVER SOCKET writer|reader NAME`.
 *
 * All words of a generation have its value, which a kernel writes and which the metadata have too. A writer publishes
 * one more than what is there, and says so when it is published. A reader maps, and says what it has read.
 */
import process from "node:process";
import { open, StoreClient } from "../../../mod.ts";
import { ptx } from "../../../kernels/fill.ts";

const [driver, path, role, name] = process.argv.slice(2) as ["software" | "cuda", string, "writer" | "reader", string];
const byteLength = 2 ** 16;
using cuda = open({ driver });
const gpu = cuda.device(0);
using stream = gpu.createStream({ nonBlocking: true });
using module = gpu.loadModule(ptx);
const fill = module.kernel("fill");
await using client = await StoreClient.connect(cuda, path, { wait: true });

async function write(): Promise<void> {
  const entries = await client.entries();
  const last = entries.find((entry) => entry.name === name)?.metadata as { value: number } | undefined;
  for (let value = (last?.value ?? 0) + 1;; value++) {
    await using memory = await client.create(name, byteLength, { stream, metadata: { value } });
    fill.launch({ grid: 8, block: 64, stream }, memory.buffer, byteLength, value);
    await memory.publish();
    console.log(`published ${value}`);
  }
}

async function read(): Promise<void> {
  for (;;) {
    using buffer = await client.map(name, { stream });
    const words = await buffer.read(Uint32Array);
    console.log(words.every((word) => word === words[0]) ? `read ${words[0]}` : `torn ${words.join()}`);
  }
}

await (role === "writer" ? write() : read());
