import { createServer } from "node:net";
import { Exporter, Importer } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Offers", import.meta.url);

mistake("new Exporter", ({ path }) => {
  new Exporter(path);
});

mistake("the Cuda object first", ({ cuda, path }) => {
  Exporter.listen(cuda, path);
});

mistake("a misspelt callback", async ({ path }) => {
  await using exporter = Exporter.listen(path, { onDisconect: console.log });
  exporter.path;
});

mistake("a callback that is not a function", ({ path }) => {
  Exporter.listen(path, { onDisconnect: "log" });
});

mistake("users by name", ({ path }) => {
  Exporter.listen(path, { users: ["alice"] });
});

mistake("one user, not in an array", ({ path }) => {
  Exporter.listen(path, { users: 1001 });
});

mistake("a timeout as text", ({ path }) => {
  Exporter.listen(path, { handshakeTimeout: "5s" });
});

mistake("a URL as the path", () => {
  Exporter.listen("unix:///tmp/weights.sock");
});

mistake("a second exporter at the path", ({ exporter }) => {
  Exporter.listen(exporter.path);
});

mistake("a buffer of a pool without a handle type", ({ exporter, buffer }) => {
  exporter.offer("weights", buffer);
});

mistake("the buffer first", ({ exporter, weights }) => {
  exporter.offer(weights, "weights");
});

mistake("a typed array", ({ exporter }) => {
  exporter.offer("weights", new Float32Array(1024));
});

mistake("an empty name", ({ exporter, weights }) => {
  exporter.offer("", weights);
});

mistake("a name of 100,000 characters", ({ exporter, weights }) => {
  exporter.offer("w".repeat(100_000), weights);
});

mistake("a name that is taken", ({ exporter, weights }) => {
  exporter.offer("weights", weights);
  exporter.offer("weights", weights);
});

mistake("metadata without its name", ({ exporter, weights }) => {
  exporter.offer("weights", weights, { shape: [32, 32], dtype: "float32" });
});

mistake("metadata with a bigint", ({ exporter, weights }) => {
  exporter.offer("weights", weights, { metadata: { address: weights.address } });
});

mistake("metadata with a function", ({ exporter, weights }) => {
  exporter.offer("weights", weights, { metadata: { decode: () => 1 } });
});

mistake("metadata with a typed array", ({ exporter, weights }) => {
  exporter.offer("weights", weights, { metadata: { shape: new Uint32Array([32, 32]) } });
});

mistake("metadata with NaN", ({ exporter, weights }) => {
  exporter.offer("weights", weights, { metadata: { loss: NaN } });
});

mistake("metadata that contains itself", ({ exporter, weights }) => {
  const metadata = { shape: [32, 32] };
  metadata.self = metadata;
  exporter.offer("weights", weights, { metadata });
});

mistake("metadata of a megabyte", ({ exporter, weights }) => {
  exporter.offer("weights", weights, { metadata: "w".repeat(2 ** 21) });
});

mistake("a buffer that was freed", ({ exporter, weights }) => {
  weights.free();
  exporter.offer("weights", weights);
});

mistake("memory from cudaMalloc", ({ exporter, gpu }) => {
  exporter.offer("weights", gpu.allocate(4096));
});

mistake("a promise of a buffer", ({ exporter, shared, stream }) => {
  exporter.offer("weights", shared.allocateAsync(4096, { stream }));
});

mistake("an offer of an exporter that was disposed", async ({ exporter, weights }) => {
  await exporter[Symbol.asyncDispose]();
  exporter.offer("weights", weights);
});

mistake("the end of an offer that was not withdrawn", async ({ exporter, weights }) => {
  const offer = exporter.offer("weights", weights);
  await offer.ended({ signal: AbortSignal.timeout(20) });
});

mistake("the path first", async ({ cuda, exporter }) => {
  await Importer.connect(exporter.path, cuda);
});

mistake("a device for the Cuda object", async ({ gpu, exporter }) => {
  await Importer.connect(gpu, exporter.path);
});

mistake("a connection to nobody", async ({ cuda, path }) => {
  await Importer.connect(cuda, path);
});

mistake("a connection that should wait for its exporter", async ({ cuda, path }) => {
  await Importer.connect(cuda, path, { wait: true, signal: AbortSignal.timeout(20) });
});

mistake("a timeout for a connection", async ({ cuda, exporter }) => {
  await using importer = await Importer.connect(cuda, exporter.path, { timeout: 1000 });
  importer.peer;
});

mistake("a number of milliseconds to wait for an exporter", async ({ cuda, path }) => {
  await Importer.connect(cuda, path, { wait: 5000, signal: AbortSignal.timeout(20) });
});

mistake("a connection to a web server", async ({ cuda, path }) => {
  const server = createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
  await new Promise((listening) => server.listen(path, listening));
  try {
    await Importer.connect(cuda, path);
  } finally {
    server.close();
  }
});

mistake("a misspelt offer", async ({ connect, exporter, weights }) => {
  exporter.offer("weights", weights);
  const importer = await connect();
  await importer.offer("wieghts", { signal: AbortSignal.timeout(100) });
});

mistake("an offer's name that is not a string", async ({ connect }) => {
  const importer = await connect();
  await importer.offer(0);
});

mistake("a stream of another open() to map on", async ({ connect, exporter, weights, stream }) => {
  exporter.offer("weights", weights);
  const importer = await connect();
  const offer = await importer.offer("weights");
  await offer.map({ stream });
});

mistake("a stream of another open() for map", async ({ connect, exporter, weights, stream }) => {
  exporter.offer("weights", weights);
  const importer = await connect();
  const offer = await importer.offer("weights");
  await offer.map(stream);
});

mistake("an offer of a pool mapped", async ({ connect, exporter, shared }) => {
  exporter.offer("pool", shared);
  const importer = await connect();
  const offer = await importer.offer("pool");
  await offer.map();
});

mistake("a pool imported from an offer of a buffer", async ({ connect, exporter, weights }) => {
  exporter.offer("weights", weights);
  const importer = await connect();
  const offer = await importer.offer("weights");
  offer.importPool();
});

mistake("a channel mapped as an offer", async ({ connect, exporter, shared }) => {
  exporter.createChannel("frames", { pool: shared, slots: 2, slotByteLength: 1024 });
  const importer = await connect();
  const offer = await importer.offer("frames");
  await offer.map();
});

mistake("an offer opened as a channel", async ({ connect, exporter, weights }) => {
  exporter.offer("weights", weights);
  const importer = await connect();
  await importer.channel("weights");
});

mistake("an offer mapped as an array of a type by name", async ({ connect, exporter, weights }) => {
  exporter.offer("weights", weights);
  const importer = await connect();
  const offer = await importer.offer("weights");
  await offer.mapArray("float32");
});

mistake("a mapped buffer used after its importer's end", async ({ connect, exporter, weights }) => {
  exporter.offer("weights", weights);
  const importer = await connect();
  const offer = await importer.offer("weights");
  const mapped = await offer.map();
  await importer[Symbol.asyncDispose]();
  mapped.fill(0);
});

mistake("an importer that was disposed", async ({ connect }) => {
  const importer = await connect();
  await importer[Symbol.asyncDispose]();
  await importer.offer("weights");
});

mistake("an offer of an exporter that has ended", async ({ connect, exporter }) => {
  const importer = await connect();
  const offer = importer.offer("weights");
  await exporter[Symbol.asyncDispose]();
  await offer;
});

mistake("a recall with the deadline as a number", async ({ connect, exporter, weights, firstLease }) => {
  const weightsOffer = exporter.offer("weights", weights);
  const importer = await connect();
  const offer = await importer.offer("weights");
  await offer.map();
  const lease = await firstLease(weightsOffer);
  await lease.recall(1000);
});

mistake("a recall with its deadline in the past", async ({ connect, exporter, weights, firstLease }) => {
  const weightsOffer = exporter.offer("weights", weights);
  const importer = await connect();
  const offer = await importer.offer("weights");
  await offer.map();
  const lease = await firstLease(weightsOffer);
  await lease.recall({ deadline: -1 });
});

mistake("using for an exporter", ({ path }) => {
  using exporter = Exporter.listen(path);
  console.log(exporter.path);
});
