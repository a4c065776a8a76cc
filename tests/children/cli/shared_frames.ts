/**
 * Processes for operators to look at: node tests/children/cli/shared_frames.ts MODE PATH. Prints "ready", and runs until
 * it is killed.
 *
 * - `export`: offers buffers and two channels, and sends frames: in `frames` all consumers get each, `camera` drops.
 * - `hold`: maps the offer `weights`.
 * - `consume`: reads the frames of both channels, and keeps those of `camera` longer than its producer makes them.
 *
 * @module
 */
import process from "node:process";
import { type ChannelProducer, Exporter, Importer, open } from "../../../mod.ts";

const [mode, path] = process.argv.slice(2) as [string, string];
const cuda = open({ driver: "software" });
const gpu = cuda.device(0);

switch (mode) {
  case "export": {
    const pool = gpu.createPool({ handleType: "posix-fd" });
    const exporter = Exporter.listen(path);
    exporter.offer("weights", pool.allocate(4 * 2 ** 20), { metadata: { dtype: "float32", shape: [1024, 1024] } });
    exporter.offer("bias", pool.allocate(4096));
    const frames = exporter.createChannel("frames", { pool, slots: 4, slotByteLength: 2 ** 20, minimumConsumers: 0 });
    const camera = exporter.createChannel("camera", {
      pool,
      slots: 8,
      slotByteLength: 2 ** 16,
      overflow: "drop-oldest",
    });
    void produce(frames, 20);
    void produce(camera, 5);
    break;
  }
  case "hold": {
    const importer = await Importer.connect(cuda, path, { wait: true });
    await (await importer.offer("weights")).map();
    break;
  }
  case "consume": {
    const importer = await Importer.connect(cuda, path, { wait: true });
    void consume(importer, "frames", 0);
    void consume(importer, "camera", 50);
    break;
  }
}
console.log("ready");
setInterval(() => {}, 1000);

async function produce(channel: ChannelProducer, pause: number): Promise<void> {
  for (;;) {
    try {
      channel.send(await channel.reserve());
    } catch {
      // All slots are lost until a process has ended.
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

async function consume(importer: Importer, name: string, pause: number): Promise<void> {
  for await (using _frame of await importer.channel(name)) await new Promise((resolve) => setTimeout(resolve, pause));
}
