// Makes a pool with two buffers and gives its descriptor and the export data of the second: pool_maker.ts DRIVER PATH.
import process from "node:process";
import { Cuda } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { loadDriver } from "../../conformance/load_driver.ts";

const [driver, path] = process.argv.slice(2) as [string, string];
const cuda = new Cuda(new Session((await loadDriver(driver))()));
const pool = cuda.device(0).createPool({ handleType: "posix-fd" });
const handle = pool.exportHandle();
const buffers = [1, 2].map((byte) => {
  const buffer = pool.allocate(4096);
  buffer.fill(byte);
  return buffer;
});
// What lies in another pool is out of reach.
const other = cuda.device(0).createPool({ handleType: "posix-fd" });
other.allocate(4096).fill(3);
cuda.device(0).synchronize();
const socket = await UnixSocket.connect(path);
await socket.send(buffers[1]!.exportPointer(), { handles: [handle] });
await socket.receive(1);
