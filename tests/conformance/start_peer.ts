import { mkdtempSync, rmSync } from "node:fs";
import { CudaError, SharingError } from "../../src/support/errors.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import { type ChildProcess, startScript } from "../support/child_process.ts";
import { receiveMessage, sendMessage } from "./peer_messages.ts";
import type { Peer } from "./situation.ts";

/** A second process of a row. */
export interface StartedPeer extends Peer {
  readonly pid: number;
}

/** Starts `peer.ts` with a driver and a role, and waits until it accepts requests. */
export async function startPeer(driverName: string, role: string): Promise<StartedPeer> {
  const folder = mkdtempSync("/tmp/poolpass-conformance-");
  let child: ChildProcess;
  try {
    await using listener = UnixListener.listen(`${folder}/socket`);
    child = startScript("conformance/peer.ts", [driverName, role, listener.path], { permissions: ["--allow-all"] });
    const earlyEnd = child.ended.then(async (end) => {
      throw new Error(`The second process ended with ${end}: ${await child.errors()}`);
    });
    earlyEnd.catch(() => {});
    const socket = await Promise.race([listener.accept(), earlyEnd]);
    return {
      pid: child.pid,
      async ask(bytes, descriptors) {
        try {
          await sendMessage(socket, { ...bytes && { bytes }, ...descriptors && { descriptors } });
          const { errorNumber, ...answer } = await receiveMessage(socket);
          if (errorNumber !== 0) throw new CudaError(errorNumber, new TextDecoder().decode(answer.bytes));
          return answer;
        } catch (error) {
          if (error instanceof SharingError && error.code === "peer-gone") await earlyEnd;
          throw error;
        }
      },
      async kill() {
        child.kill("SIGKILL");
        await child.ended;
      },
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
