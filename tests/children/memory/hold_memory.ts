/**
 * Creates memory, fills it with 0x21 and sends it to whoever connects to a socket: its size as 8 bytes, with the handle.
 * Then answers each byte with the first byte of the memory. Arguments: the driver and the path of the socket.
 *
 * @module
 */
import process from "node:process";
import { open, UnixListener } from "../../../mod.ts";

const [driver, path] = process.argv.slice(2) as ["cuda" | "software", string];
using cuda = open({ driver });
const gpu = cuda.device(0);
using memory = gpu.createMemory(2 ** 21, { handleType: "posix-fd" });
using range = cuda.reserveAddresses(memory.byteLength);
const buffer = range.map(memory);
buffer.fill(0x21);
gpu.synchronize();
await using listener = UnixListener.listen(path);
console.log("listening");
await using socket = await listener.accept();
{
  using handle = memory.exportHandle();
  const size = new Uint8Array(new BigUint64Array([BigInt(memory.byteLength)]).buffer);
  await socket.send(size, { handles: [handle] });
}
for (;;) {
  await socket.receive(1);
  await socket.send(await buffer.read(Uint8Array, { length: 1 }));
}
