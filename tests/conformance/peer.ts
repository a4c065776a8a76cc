// The second process of a row: peer.ts DRIVER SOCKET. It runs the role that it is assigned, or several in turn, and
// answers requests until the row's process exits.
import process from "node:process";
import { CudaError, SharingError } from "../../src/support/errors.ts";
import { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { loadDriver } from "./load_driver.ts";
import { type Envelope, receiveMessage, sendMessage } from "./peer_messages.ts";
import { roles } from "./roles.ts";
import type { Role } from "./situation.ts";

const [driverName, path] = process.argv.slice(2) as [string, string];
const openDriver = await loadDriver(driverName);
let answer: ReturnType<Role> = () => {
  throw new Error("Cannot answer: no role was assigned");
};
const socket = await UnixSocket.connect(path);
for (;;) {
  let request: Envelope;
  try {
    request = await receiveMessage(socket);
  } catch (error) {
    // Exits without closing the driver: closing a lost context might never return.
    if (error instanceof SharingError && error.code === "peer-gone") process.exit(0);
    throw error;
  }
  try {
    if (request.isRole) answer = startRole(new TextDecoder().decode(request.bytes));
    await sendMessage(socket, request.isRole ? {} : await answer(request));
  } catch (error) {
    if (!(error instanceof CudaError)) throw error;
    await sendMessage(socket, { bytes: new TextEncoder().encode(error.call) }, { errorNumber: error.number });
  }
}

function startRole(name: string): ReturnType<Role> {
  const role = roles[name];
  if (role === undefined) throw new RangeError(`Cannot run the role "${name}": there is no role of that name`);
  return role(openDriver());
}
