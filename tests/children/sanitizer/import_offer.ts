/**
 * With the sanitizer, maps what another process offers, and reads it. Arguments: the exporter's path, the driver's name,
 * whether a "buffer" or a "slot" is offered, the number of the stream that reads it, and the name of the processes' board.
 * The memory is released on stream 0. Prints "read" when the read is enqueued, and the reports when the exporter has ended.
 *
 * @module
 */
import process from "node:process";
import { useBoard } from "../../support/own_board.ts";
import { type DeviceBuffer, Importer, open, type SanitizerReport } from "../../../mod.ts";

const [path, driver, what, reader, board] = process.argv.slice(2) as [
  string,
  "software" | "cuda",
  string,
  string,
  string,
];
useBoard(board);
const reports: SanitizerReport[] = [];
{
  using cuda = open({ driver, sanitize: ["stream-order"], onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  const streams = [0, 1].map(() => gpu.createStream({ nonBlocking: true }));
  await using importer = await Importer.connect(cuda, path);
  const read = (buffer: DeviceBuffer): void => {
    const stream = streams[Number(reader)]!;
    const copy = gpu.allocate(buffer.byteLength);
    // By its address, so that the library does not know of the use.
    copy.copyFrom(gpu.wrap(buffer.address, buffer.byteLength, { stream }), stream);
    copies.push(copy);
  };
  const copies: DeviceBuffer[] = [];
  if (what === "buffer") {
    const buffer = await (await importer.offer("memory")).map({ stream: streams[0]! });
    read(buffer);
    console.log("read");
    buffer.free();
    for await (const _ of importer.offers());
  } else {
    await using channel = await importer.channel("memory", { stream: streams[0]! });
    console.log("joined");
    for await (const slot of channel) {
      read(slot.buffer);
      slot.release();
    }
  }
  gpu.synchronize();
  console.log(JSON.stringify(reports));
  for (const copy of copies) copy.free();
}
