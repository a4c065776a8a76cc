// Sends a pool's descriptor and a pointer to another process over a socket: pool_by_socket.ts exporter|importer PATH
import { open, UnixListener, UnixSocket } from "../../../mod.ts";

const [role, path] = Deno.args as [string, string];
using cuda = open();
const gpu = cuda.device(0);
if (role === "exporter") {
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(256);
  buffer.fill(5);
  gpu.synchronize();
  using handle = pool.exportHandle();
  await using listener = UnixListener.listen(path);
  console.log("listening");
  await using socket = await listener.accept();
  await socket.send(buffer.exportPointer(), { handles: [handle] });
  await socket.receive(1);
  console.log((await buffer.read(Uint8Array, { length: 2 })).join(" "));
} else {
  await using socket = await UnixSocket.connect(path);
  const { bytes, handles } = await socket.receive(64, { handles: 1 });
  using handle = handles[0]!;
  using pool = gpu.importPool(handle);
  using buffer = pool.importPointer(bytes, 256);
  console.log((await buffer.read(Uint8Array, { length: 2 })).join(" "), socket.peer.pid > 0);
  buffer.fill(6);
  gpu.synchronize();
  await socket.send(Uint8Array.of(1));
}
