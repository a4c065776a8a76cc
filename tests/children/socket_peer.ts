// The other process of the socket tests: node tests/children/socket_peer.ts MODE PATH. It connects, does what the mode
// says, says so on its standard output, and then stays until it is killed.
import process from "node:process";
import { addressOf, dlopen } from "../../ffi/host.ts";
import { createMemoryFile } from "../../ffi/shim/memory.ts";
import { cString } from "../../ffi/shim/shim.ts";
import { connectTo } from "../../ffi/shim/sockets.ts";
import { ShareableHandle } from "../../src/shareable_handle.ts";
import { UnixListener } from "../../src/sharing/unix_listener.ts";
import { UnixSocket } from "../../src/sharing/unix_socket.ts";

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

/** Starts a process that has everything of this one open, does nothing with it, and outlives it. */
function startHolder(): number {
  const libc = dlopen("libc.so.6", {
    dup: { parameters: ["i32" /* int fd */], result: "i32" },
    posix_spawn: {
      parameters: [
        "buffer", // pid_t *pid
        "buffer", // const char *path
        "u64", // const posix_spawn_file_actions_t *file_actions
        "u64", // const posix_spawnattr_t *attrp
        "buffer", // char *const argv[]
        "buffer", // char *const envp[]
      ],
      result: "i32",
    },
  }).symbols;
  // A duplicate is not closed in programs that are started; those that are not the socket are refused or harmless.
  for (let fd = 3; fd < 100; fd++) libc.dup!(fd);
  const pid = new Int32Array(1);
  const args = ["sleep", "1000"].map(cString);
  const argv = new BigUint64Array([...args.map(addressOf), 0n]);
  const environment = new BigUint64Array(1);
  const pointers = [argv, environment].map((array) => new Uint8Array(array.buffer)) as [Uint8Array, Uint8Array];
  libc.posix_spawn!(new Uint8Array(pid.buffer), cString("/bin/sleep"), 0n, 0n, ...pointers);
  return pid[0]!;
}
