// The second process of a row: peer.ts DRIVER ROLE SOCKET. It answers requests until the row's process exits.
import process from "node:process";
import { CudaError, SharingError } from "../../src/support/errors.ts";
import { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { loadDriver } from "./load_driver.ts";
import { receiveMessage, sendMessage } from "./peer_messages.ts";
import { roles } from "./roles.ts";
import type { PeerMessage } from "./situation.ts";

const [driverName, roleName, path] = process.argv.slice(2) as [string, string, string];
const role = roles[roleName];
if (role === undefined) throw new RangeError(`Cannot run the role "${roleName}": there is no role of that name`);
const openDriver = await loadDriver(driverName);
const answer = role(openDriver());
const socket = await UnixSocket.connect(path);
for (;;) {
  let request: PeerMessage;
  try {
    request = await receiveMessage(socket);
  } catch (error) {
    // Exits without closing the driver: closing a lost context might never return.
    if (error instanceof SharingError && error.code === "peer-gone") process.exit(0);
    throw error;
  }
  try {
    await sendMessage(socket, await answer(request));
  } catch (error) {
    if (!(error instanceof CudaError)) throw error;
    await sendMessage(socket, { bytes: new TextEncoder().encode(error.call) }, { errorNumber: error.number });
  }
}
