// Becomes another user, and prints whether it can use a folder and a socket of the original user: node
// tests/children/sharing/other_user.ts FOLDER.
import process from "node:process";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";

const nobody = 65534;
const folder = process.argv[2]!;
process.setgid!(nobody);
process.setuid!(nobody);

console.log("connect:", await codeOf(() => UnixSocket.connect(`${folder}/socket`)));
console.log("listen beside it:", await codeOf(() => UnixListener.listen(`${folder}/new`)));
console.log("listen in its place:", await codeOf(() => UnixListener.listen(`${folder}/socket`)));

async function codeOf(call: () => unknown): Promise<string> {
  try {
    await call();
    return "nothing";
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}
