/**
 * A client of a store that goes on until it is killed: `store_user.ts DRIVER SOCKET writer|reader|mover|sleeper NAME`.
 *
 * All words of a generation have its value, which a kernel writes and which the metadata have too. A writer publishes
 * one more than what is there, and says so when it is published. A reader maps, and says what it has read. A mover moves
 * an entry to host memory and back, and a sleeper lets it sleep and wakes it; both say how often they have done so.
 */
import process from "node:process";
import { type DeviceBuffer, open, SharingError, StoreClient } from "../../../mod.ts";
import { ptx } from "../../../kernels/fill.ts";

const [driver, path, role, name] = process.argv.slice(2) as [
  "software" | "cuda",
  string,
  "writer" | "reader" | "mover" | "sleeper",
  string,
];
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
    console.log(`did ${value}`);
  }
}

async function read(): Promise<void> {
  for (;;) {
    using buffer = await client.map(name, { stream });
    const words = await buffer.read(Uint32Array);
    console.log(words.every((word) => word === words[0]) ? `did ${words[0]}` : `torn ${words.join()}`);
  }
}

/** Reads an entry that is moved, whose bytes are all the same, and says if they are not. */
async function check(buffer: DeviceBuffer): Promise<void> {
  const bytes = await buffer.read(Uint8Array);
  const other = bytes.findIndex((byte) => byte !== bytes[0]);
  if (other >= 0) console.log(`torn at ${other}`);
}

async function move(): Promise<void> {
  for (let count = 1;; count++) {
    {
      using entry = await client.mapEntry(name);
      await check(entry.buffer);
    }
    try {
      await client.offload(name);
    } catch (error) {
      if (!(error instanceof SharingError) || error.code !== "in-use") throw error;
    }
    console.log(`did ${count}`);
  }
}

async function sleep(): Promise<void> {
  using entry = await client.mapEntry(name);
  for (let count = 1;; count++) {
    await entry.sleep();
    for (let polls = 0; polls < 8; polls++) {
      if ((await client.entries()).find((each) => each.name === name)?.place === "host") break;
    }
    await entry.wake();
    await check(entry.buffer);
    console.log(`did ${count}`);
  }
}

const act = { writer: write, reader: read, mover: move, sleeper: sleep }[role];
await act();
