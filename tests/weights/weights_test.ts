/** Weights in a store: what is published from files, what is mapped, and what a stranger may say of them. */
import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { Buffer } from "node:buffer";
import { closeSync, fstatSync, openSync, writeFileSync, writeSync } from "node:fs";
import { type Cuda, CudaError, type JsonValue, MemoryStore, SharingError, StoreClient } from "../../mod.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { StoreRequests } from "../../src/sharing/store/store_requests.ts";
import { mapWeights, publishWeights } from "../../weights.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";

interface Context {
  readonly cuda: Cuda;
  readonly folder: string;
  readonly store: MemoryStore;
  connect(): Promise<StoreClient>;
}

function weightsTest(name: string, body: (context: Context) => Promise<void>): void {
  if (shimRefusal() !== undefined) return;
  testOnEachDriver(name, (cuda) =>
    inFolder(async (folder) => {
      await using store = MemoryStore.listen(cuda, `${folder}/store`);
      await using clients = new AsyncDisposableStack();
      await body({
        cuda,
        folder,
        store,
        connect: async () => clients.use(await StoreClient.connect(cuda, `${folder}/store`)),
      });
    }));
}

type Tensors = Readonly<
  Record<string, { readonly dtype: string; readonly shape: number[]; readonly bytes: Uint8Array }>
>;

/** Writes a safetensors file by hand. */
function writeFile(path: string, tensors: Tensors): string {
  let end = 0;
  const header = Object.fromEntries(
    Object.entries(tensors).map(([name, { dtype, shape, bytes }]) => {
      return [name, { dtype, shape, data_offsets: [end, end += bytes.length] }];
    }),
  );
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = new Uint8Array(new BigUint64Array([BigInt(text.length)]).buffer);
  const parts = [length, text, ...Object.values(tensors).map(({ bytes }) => bytes)];
  writeFileSync(path, Buffer.concat(parts));
  return path;
}

const bytesOf = (length: number, seed: number): Uint8Array =>
  Uint8Array.from({ length }, (_, index) => (index * 31 + seed * 17) & 255);
const layer: Tensors = {
  "a.weight": { dtype: "F32", shape: [5, 7], bytes: bytesOf(140, 1) },
  "b.bias": { dtype: "BF16", shape: [3], bytes: bytesOf(6, 2) },
  "c.scale": { dtype: "F8_E4M3", shape: [33_000], bytes: bytesOf(33_000, 3) },
  "d.packed": { dtype: "F4", shape: [6], bytes: bytesOf(3, 4) },
  "e.empty": { dtype: "I64", shape: [0, 4], bytes: new Uint8Array() },
};

weightsTest("weights are mapped as they are in the file, for reading, and outlive their publisher", async (context) => {
  const { folder, connect } = context;
  const path = writeFile(`${folder}/layer.safetensors`, layer);
  const publisher = await connect();
  const loaded: number[] = [];
  const published = await publishWeights(publisher, "layer", path, { onProgress: ({ loaded: l }) => loaded.push(l) });
  assert(loaded.length > 0 && loaded.at(-1) === 33_149, String(loaded));
  await published[Symbol.asyncDispose]();
  await publisher[Symbol.asyncDispose]();

  const reader = await connect();
  const held = await mapWeights(reader, "layer");
  assertEquals([...held.keys()].sort(), Object.keys(layer));
  assertEquals([held.name, held.digest], ["layer", published.digest]);
  assertEquals([held.get("b.bias")!.dtype, held.get("b.bias")!.shape], ["bfloat16", [3]]);
  for (const [name, { bytes }] of Object.entries(layer)) {
    const array = held.get(name)!;
    if (bytes.length === 0) continue;
    const read = await array.read(Uint8Array);
    assertEquals(read, bytes, name);
  }
  assertEquals(await held.verify(), published.digest);
  const scale = held.get("c.scale")!;
  try {
    scale.fill(1);
    assert(false, "it was written");
  } catch (error) {
    assert(error instanceof CudaError && /"read"/.test(error.message), String(error));
  }
  await held[Symbol.asyncDispose]();
  assertEquals((await reader.entries()).map(({ readers }) => readers.length), [0]);
});

weightsTest("the same tensors are the same revision in another file, and others are not", async (context) => {
  const { folder, connect } = context;
  const client = await connect();
  const revision = async (tensors: Tensors): Promise<string> => {
    await using weights = await publishWeights(client, "x", writeFile(`${folder}/x.safetensors`, tensors));
    return weights.digest!;
  };
  const first = await revision(layer);
  assertEquals(await revision(Object.fromEntries(Object.entries(layer).toReversed())), first);
  // The header is the same.
  const changed = { ...layer, "b.bias": { ...layer["b.bias"]!, bytes: bytesOf(6, 9) } };
  assertNotEquals(await revision(changed), first);
  const { "e.empty": _empty, ...without } = layer;
  assertNotEquals(await revision(without), first);
});

weightsTest("weights are asked for by their revision, and verified", async ({ folder, connect }) => {
  const client = await connect();
  const path = writeFile(`${folder}/layer.safetensors`, layer);
  await using published = await publishWeights(client, "layer", path);
  const digest = published.digest!;
  for (const digits of [digest, digest.slice(0, 8)]) {
    await using held = await mapWeights(client, `layer@${digits}`);
    assertEquals(held.digest, digest);
  }
  const other = `layer@${digest.replace(/./, (digit) => digit === "0" ? "1" : "0")}`;
  const error = await assertRejects(() => mapWeights(client, other), SharingError, `with the digest ${digest}`);
  assertEquals(error.code, "not-found");
  for (const name of ["layer@", "layer@1234567", "layer@xyz12345", `layer@${"0".repeat(65)}`]) {
    await assertRejects(() => mapWeights(client, name), RangeError, "8 to 64 hexadecimal digits");
  }
  await assertRejects(() => publishWeights(client, "a@b", path), RangeError, '"@"');
  // Whoever may write them can change them: that is found.
  await using written = await mapWeights(client, "layer", { write: true });
  written.get("a.weight")!.fill(0);
  await written.buffer.stream.finished();
  const changed = await assertRejects(() => written.verify(), SharingError, "publish them anew");
  assertEquals(changed.code, "digest-mismatch");
});

weightsTest("weights that are replaced while they are mapped are of one generation", async ({ folder, connect }) => {
  const [publisher, reader] = [await connect(), await connect()];
  const path = writeFile(`${folder}/layer.safetensors`, layer);
  const { "c.scale": scale } = layer;
  const other = writeFile(`${folder}/other.safetensors`, { "c.scale": scale!, "a.weight": layer["a.weight"]! });
  await using _first = await publishWeights(publisher, "layer", path);
  const map = reader.mapEntry.bind(reader);
  reader.mapEntry = async (...given) => {
    const entry = await map(...given);
    await (await publishWeights(publisher, "layer", other))[Symbol.asyncDispose]();
    return entry;
  };
  await using held = await mapWeights(reader, "layer");
  assertEquals(held.size, 5);
  assertEquals(await held.verify(), held.digest);
  for (const [name, { bytes }] of Object.entries(layer)) {
    if (bytes.length > 0) assertEquals(await held.get(name)!.read(Uint8Array), bytes, name);
  }
  assertEquals([held.generation, (await reader.entries()).map(({ readers }) => readers.length)], [1, [0]]);
});

weightsTest("weights are compared with the file's bytes, as the CPU reads them", async ({ folder, connect }) => {
  const client = await connect();
  const large = { dtype: "U8", shape: [5 * 2 ** 20 + 3], bytes: bytesOf(5 * 2 ** 20 + 3, 5) };
  const path = writeFile(`${folder}/layer.safetensors`, { ...layer, large });
  await using weights = await publishWeights(client, "layer", path, { verify: true });
  assertEquals(await weights.verify(), weights.digest);
  const onProgress = ({ loaded, total }: { readonly loaded: number; readonly total: number }) => {
    if (loaded < total) return;
    const file = openSync(path, "r+");
    writeSync(file, new Uint8Array([254]), 0, 1, fstatSync(file).size - 1);
    closeSync(file);
  };
  const error = await assertRejects(
    () => publishWeights(client, "layer", path, { verify: true, onProgress }),
    SharingError,
    `the digest on the device is ${weights.digest}`,
  );
  assertEquals(error.code, "digest-mismatch");
  assertEquals((await client.entries()).map(({ generation }) => generation), [1]);
});

weightsTest("the ranks of a model are mapped when all are published", async ({ folder, connect }) => {
  const [publisher, reader] = [await connect(), await connect()];
  const paths = [layer, { "c.scale": layer["c.scale"]! }].map((tensors, rank) => (
    writeFile(`${folder}/${rank}.safetensors`, tensors)
  ));
  const first = publishWeights(publisher, "x", paths[0]!, { rank: [0, 2], keep: true });
  const mapping = mapWeights(reader, "x", { rank: [1, 2] });
  await using second = await publishWeights(publisher, "x", paths[1]!, { rank: [1, 2] });
  await using one = await first;
  assertEquals([one.generation, second.generation], [1, 1]);
  await using mapped = await mapping;
  assertEquals([mapped.digest, [...mapped.keys()]], [second.digest, ["c.scale"]]);
  await using found = await mapWeights(reader, `x@${one.digest}`, { rank: [0, 2] });
  assertEquals(found.size, 5);
  const error = await assertRejects(() => mapWeights(reader, "x"), SharingError, "it is published for 2 ranks");
  assertEquals(error.code, "not-found");
  assertEquals(await mapped.update(), false);
});

weightsTest("the weights of a module that was loaded for another kind of device are refused", async (context) => {
  const client = await context.connect();
  const tensor = { name: "x", dtype: "F32", shape: [2], byteOffset: 0, byteLength: 8 };
  const map = async (kind: string, capability: string): Promise<void> => {
    const members = { digest: null, made: { capability, torch: "2.13.0" } };
    const metadata = { format: "weights", version: 1, ...members, tensors: [{ ...tensor, kind }] };
    await using memory = await client.create("x", 8, { metadata });
    await memory.publish();
    await using _held = await mapWeights(client, "x");
  };
  await map("tensor", "1.0");
  await map("parameter", context.cuda.device(0).computeCapability.join("."));
  const error = await assertRejects(() => map("parameter", "1.0"), SharingError, "capability 1.0, and this process");
  assertEquals(error.code, "incompatible");
  assertEquals((await client.entries()).map(({ readers }) => readers.length), [0]);
});

weightsTest("a file that cannot be read publishes nothing, and leaves nothing", async ({ folder, connect }) => {
  const client = await connect();
  writeFileSync(`${folder}/cut.safetensors`, "short");
  await assertRejects(() => publishWeights(client, "x", `${folder}/cut.safetensors`), Error, "safetensors");
  await assertRejects(() => publishWeights(client, "x", `${folder}/none.safetensors`), Error, "none.safetensors");
  const path = writeFile(`${folder}/layer.safetensors`, layer);
  const signal = AbortSignal.abort();
  await assertRejects(() => publishWeights(client, "x", path, { signal }), DOMException);
  assertEquals(await client.entries(), []);
});

weightsTest(
  "the same weights under two names are there once, and what only claims to be them is not",
  async (context) => {
    const { folder, connect, store } = context;
    const client = await connect();
    const path = writeFile(`${folder}/layer.safetensors`, layer);
    const bytes = () => store.status()!.statistics.byteLength;
    const publish = async (name: string, options = {}) =>
      await (await publishWeights(client, name, path, options))[Symbol.asyncDispose]();
    await publish("a");
    const once = bytes();
    await using b = await publishWeights(client, "b", path);
    assertEquals([bytes(), await b.get("b.bias")!.read(Uint8Array)], [once, layer["b.bias"]!.bytes]);
    const listed = (await client.entries()).map(({ name, digest }) => [name, digest]);
    assertEquals(listed, [["a", b.digest], ["b", b.digest]]);
    const error = await assertRejects(() => mapWeights(client, "a", { write: true }), SharingError, "share: false");
    assertEquals(error.code, "in-use");
    await publish("own", { share: false });
    assertEquals(bytes(), 2 * once);
    // Weights that have changed without a trace are found, and what is published then is right.
    await client.remove("own");
    const { perform } = StoreRequests.prototype;
    StoreRequests.prototype.perform = function (what, document, pending) {
      return perform.call(this, what, { ...document, ...what === "map" ? { write: false } : {} }, pending);
    };
    try {
      using written = await client.map("a", { write: true });
      written.fill(1);
      await written.stream.finished();
    } finally {
      StoreRequests.prototype.perform = perform;
    }
    await using c = await publishWeights(client, "c", path);
    assertEquals([bytes(), await c.verify()], [2 * once, b.digest]);
    assertEquals((await assertRejects(() => b.verify(), SharingError)).code, "digest-mismatch");
  },
);

weightsTest("the list of very many tensors lies in the memory itself", async ({ folder, connect }) => {
  const client = await connect();
  const tensors = Object.fromEntries(Array.from({ length: 9000 }, (_, index) => {
    return [`model.layers.${index}.self_attn.q_proj.weight`, { dtype: "U8", shape: [1], bytes: bytesOf(1, index) }];
  }));
  await using published = await publishWeights(client, "many", writeFile(`${folder}/many.safetensors`, tensors));
  const [entry] = await client.entries();
  assert(JSON.stringify(entry!.metadata).length < 1000);
  await using held = await mapWeights(client, "many");
  assertEquals([held.size, held.digest], [9000, published.digest]);
  assertEquals(await held.get("model.layers.8999.self_attn.q_proj.weight")!.read(Uint8Array), bytesOf(1, 8999));
});

weightsTest("what says of itself what cannot be is refused, and held by nobody", async ({ connect }) => {
  const client = await connect();
  const tensor = { name: "x", dtype: "F32", shape: [2], byteOffset: 0, byteLength: 8, kind: "tensor" };
  const of = (...tensors: JsonValue[]): JsonValue => ({ format: "weights", version: 1, digest: null, tensors });
  const forged: readonly (readonly [JsonValue | undefined, string])[] = [
    [undefined, "describe none"],
    [{ format: "other" }, "describe none"],
    [{ format: "weights", version: 2, digest: null, tensors: [] }, "version 2"],
    [{ format: "weights", version: 1, digest: "abc", tensors: [] }, "64 hexadecimal digits"],
    [{ format: "weights", version: 1, digest: null }, "no list"],
    [of(7), "not an object"],
    [of({ ...tensor, name: 3 }), "no name"],
    [of(tensor, tensor), "twice"],
    [of({ ...tensor, strides: [1] }), "transposed"],
    [of({ ...tensor, dtype: "F31" }), "unknown"],
    [of({ ...tensor, shape: [-1] }), "no dtype or shape"],
    [of({ ...tensor, shape: [2 ** 40, 2 ** 40] }), "more elements"],
    [of({ ...tensor, shape: [3] }), "12 bytes of its shape"],
    [of({ ...tensor, byteOffset: 93 }), "8 bytes of its shape"],
    [of({ ...tensor, byteOffset: -8 }), "8 bytes of its shape"],
    [
      { format: "weights", version: 1, digest: null, manifest: { byteOffset: 0, byteLength: 101 } },
      "not in the memory",
    ],
    [{ format: "weights", version: 1, digest: null, manifest: { byteOffset: 0, byteLength: 100 } }, "not JSON"],
  ];
  for (const [metadata, why] of forged) {
    {
      await using memory = await client.create("x", 100, metadata === undefined ? {} : { metadata });
      memory.buffer.fill(255);
      await memory.publish();
    }
    const error = await assertRejects(() => mapWeights(client, "x"), SharingError, why);
    assertEquals(error.code, "bad-message");
    assertEquals((await client.entries()).map(({ readers }) => readers.length), [0], why);
  }
});
