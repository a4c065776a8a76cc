import { area, mistake, printing } from "../mistake.ts";

area("Channels", import.meta.url);

mistake("no options", ({ exporter }) => {
  exporter.createChannel("frames");
});

mistake("a buffer for the pool", ({ exporter, weights }) => {
  exporter.createChannel("frames", { pool: weights, slots: 2, slotByteLength: 1024 });
});

mistake("a pool without a handle type", ({ exporter, pool }) => {
  exporter.createChannel("frames", { pool, slots: 2, slotByteLength: 1024 });
});

mistake("no slots", ({ exporter, shared }) => {
  exporter.createChannel("frames", { pool: shared, slots: 0, slotByteLength: 1024 });
});

mistake("no size of a slot", ({ exporter, shared }) => {
  exporter.createChannel("frames", { pool: shared, slots: 2 });
});

mistake("slotSize instead of slotByteLength", ({ exporter, shared }) => {
  exporter.createChannel("frames", { pool: shared, slots: 2, slotSize: 1024 });
});

mistake("an overflow that does not exist", ({ exporter, shared }) => {
  exporter.createChannel("frames", { pool: shared, slots: 2, slotByteLength: 1024, overflow: "drop" });
});

mistake("a window without dropping", ({ exporter, shared }) => {
  exporter.createChannel("frames", { pool: shared, slots: 2, slotByteLength: 1024, window: 1 });
});

mistake("a window larger than the ring", ({ exporter, shared }) => {
  exporter.createChannel("frames", {
    pool: shared,
    slots: 2,
    slotByteLength: 1024,
    overflow: "drop-oldest",
    window: 3,
  });
});

mistake("a misspelt holdTimeout", ({ exporter, shared }) => {
  exporter.createChannel("frames", { pool: shared, slots: 2, slotByteLength: 1024, holdTimout: 100 });
});

mistake("a name that an offer has", ({ exporter, shared, weights }) => {
  exporter.offer("frames", weights);
  exporter.createChannel("frames", { pool: shared, slots: 2, slotByteLength: 1024 });
});

mistake("reserve without a consumer", async ({ exporter, shared, stream }) => {
  const channel = exporter.createChannel("frames", { pool: shared, slots: 2, slotByteLength: 1024, stream });
  await channel.reserve({ signal: AbortSignal.timeout(20) });
});

mistake("a buffer sent for its slot", async ({ openChannel }) => {
  const { channel } = await openChannel();
  const slot = await channel.reserve();
  channel.send(slot.buffer);
});

mistake("a slot sent twice", async ({ openChannel }) => {
  const { channel } = await openChannel();
  const slot = await channel.reserve();
  channel.send(slot);
  channel.send(slot);
});

mistake("a slot written after it was sent", async ({ openChannel }) => {
  const { channel } = await openChannel();
  const slot = await channel.reserve();
  channel.send(slot);
  slot.buffer.fill(1);
});

mistake("a slot's buffer freed", async ({ openChannel }) => {
  const { channel } = await openChannel();
  const slot = await channel.reserve();
  slot.buffer.free();
});

mistake("a frame longer than its slot", async ({ openChannel }) => {
  const { channel } = await openChannel();
  channel.send(await channel.reserve(), { byteLength: 2048 });
});

mistake("a frame's length as length", async ({ openChannel }) => {
  const { channel } = await openChannel();
  channel.send(await channel.reserve(), { length: 16 });
});

mistake("a slot of another channel", async ({ openChannel, exporter, shared, stream }) => {
  const { channel } = await openChannel();
  const other = exporter.createChannel("other", {
    pool: shared,
    slots: 2,
    slotByteLength: 1024,
    stream,
    overflow: "drop-oldest",
  });
  channel.send(await other.reserve());
});

mistake("a frame after the end", async ({ openChannel }) => {
  const { channel } = await openChannel();
  const slot = await channel.reserve();
  channel.end();
  channel.send(slot);
});

mistake("more slots reserved than there are", async ({ openChannel }) => {
  const { channel } = await openChannel();
  for (let slots = 0; slots < 2; slots++) await channel.reserve(); // never sent
  await channel.reserve({ signal: AbortSignal.timeout(20) });
});

mistake("a frame released twice", async ({ openChannel }) => {
  const { channel, frames } = await openChannel();
  channel.send(await channel.reserve());
  const slot = await frames.next();
  slot.release();
  slot.release();
});

mistake("a frame read after its release", async ({ openChannel }) => {
  const { channel, frames } = await openChannel();
  channel.send(await channel.reserve());
  const slot = await frames.next();
  slot.release();
  await slot.buffer.read(Uint8Array);
});

mistake("a frame released on a stream of another open()", async ({ openChannel, stream }) => {
  const { channel, frames } = await openChannel();
  channel.send(await channel.reserve());
  const slot = await frames.next();
  slot.release(stream);
});

mistake("a frame that is never released", async ({ openChannel }) => {
  const { channel, frames } = await openChannel();
  for (let frame = 0; frame < 2; frame++) {
    channel.send(await channel.reserve());
    await frames.next(); // never released
  }
  await channel.reserve({ signal: AbortSignal.timeout(20) });
});

mistake("a consumer used after its end", async ({ openChannel }) => {
  const { frames } = await openChannel();
  await frames[Symbol.asyncDispose]();
  await frames.next();
});

mistake("a misspelt channel", async ({ openChannel }) => {
  const { importer } = await openChannel();
  await importer.channel("frame", { signal: AbortSignal.timeout(100) });
});

printing("a channel in a template", async ({ openChannel }) => {
  const { channel, frames } = await openChannel();
  const frame = await channel.reserve();
  console.log(`${channel} ${frames}`);
  channel.send(frame);
});
