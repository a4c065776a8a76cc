// The other process in tests of sockets: node tests/children/sharing/socket_peer.ts MODE PATH. Connects, does what the
// mode says, prints "ready", and runs until it is killed.
import process from "node:process";
import { createMemoryFile } from "../../../ffi/native/shim/memory_files.ts";
import { connectTo } from "../../../ffi/native/shim/sockets.ts";
import { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { startHolder } from "./sharing_holder.ts";

const [mode, path] = process.argv.slice(2) as [string, string];

switch (mode) {
  case "connect":
    await UnixSocket.connect(path);
    break;
  case "part": {
    const socket = await UnixSocket.connect(path);
    using handle = ShareableHandle.fromFd(createMemoryFile("poolpass-test", 4096));
    await socket.send(new Uint8Array(3), { handles: [handle] });
    break;
  }
  case "grandchild":
    connectTo(path);
    console.log(startHolder());
    break;
  case "listen":
    UnixListener.listen(path);
    break;
  case "echo": {
    const socket = await UnixSocket.connect(path);
    const { bytes, handles } = await socket.receive(8, { handles: 1 });
    await socket.send(bytes, { handles });
    break;
  }
}
console.log("ready");
setInterval(() => {}, 1000);
