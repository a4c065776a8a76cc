import { mkdtempSync, rmSync } from "node:fs";
import { CudaError, SharingError } from "../../src/support/errors.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import type { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { type ChildProcess, startScript } from "../support/child_process.ts";
import { type Envelope, receiveMessage, sendMessage } from "./peer_messages.ts";
import type { Peer, PeerMessage } from "./situation.ts";

/** A second process of a row. */
export interface StartedPeer extends Peer {
  readonly pid: number;
  /** Assigns a role to the process, which runs it with a new driver. */
  assign(role: string): Promise<void>;
}

/** Starts `peer.ts` with a driver, and waits until it accepts requests. */
export async function startPeer(driverName: string): Promise<StartedPeer> {
  const folder = mkdtempSync("/tmp/poolpass-conformance-");
  try {
    await using listener = UnixListener.listen(`${folder}/socket`);
    const child = startScript("conformance/peer.ts", [driverName, listener.path], { permissions: ["--allow-all"] });
    const earlyEnd = child.ended.then(async (end) => {
      throw new Error(`The second process ended with ${end}: ${await child.errors()}`);
    });
    earlyEnd.catch(() => {});
    return peerOf(child, await Promise.race([listener.accept(), earlyEnd]), earlyEnd);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** @param earlyEnd Rejects when the process has ended, with its exit code or signal. */
function peerOf(child: ChildProcess, socket: UnixSocket, earlyEnd: Promise<never>): StartedPeer {
  async function request(message: Partial<PeerMessage>, isRole: boolean): Promise<Envelope> {
    try {
      await sendMessage(socket, message, { isRole });
      const answer = await receiveMessage(socket);
      if (answer.errorNumber !== 0) throw new CudaError(answer.errorNumber, new TextDecoder().decode(answer.bytes));
      return answer;
    } catch (error) {
      if (error instanceof SharingError && error.code === "peer-gone") await earlyEnd;
      throw error;
    }
  }

  return {
    pid: child.pid,
    async assign(role) {
      await request({ bytes: new TextEncoder().encode(role) }, true);
    },
    async ask(bytes, descriptors) {
      return await request({ ...bytes && { bytes }, ...descriptors && { descriptors } }, false);
    },
    async kill() {
      child.kill("SIGKILL");
      await child.ended;
    },
  };
}
