import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { errno, errnoName, SystemError } from "../../../ffi/shim/system_error.ts";
import type { CudaDevice } from "../../../src/objects/cuda_device.ts";
import { RemoteEvents } from "../../../src/sharing/events/remote_events.ts";
import type { Message } from "../../../src/sharing/protocol/messages.ts";
import type { PeerProcess } from "../../../src/sharing/transport/peer_process.ts";
import { translateSystemErrors } from "../../../src/software/failure.ts";
import { cannot } from "../../../src/support/driver_errors.ts";

/** Announces an event that cannot be opened because of a system call's error. Returns what is sent by a wait for it. */
function sentBecauseOf(number: number): Message[] {
  const openEvent = (): never => {
    try {
      return translateSystemErrors("cudaIpcOpenEventHandle", () => {
        throw new SystemError(number, "open of /proc/1/fd/3");
      });
    } catch (error) {
      throw cannot("open an event", error);
    }
  };
  const sent: Message[] = [];
  const events = new RemoteEvents({
    findDevice: () => ({ openEvent }) as unknown as CudaDevice,
    maximum: 1,
    send: (message) => sent.push(message),
    process: { isInOwnPidNamespace: true, isKnownToRun: true } as PeerProcess,
  });
  events.define({ type: "event", event: 1, deviceUuid: new Uint8Array(16), handle: new Uint8Array(64) });
  const cancel = events.whenFired(1, () => {});
  cancel();
  events.close();
  return sent;
}

test("the owner of an event is asked that this user may not open, but not while resources are lacking", () => {
  for (const number of [errno.EACCES, errno.EPERM]) {
    assertEquals(sentBecauseOf(number), [{ type: "wait", event: 1 }], errnoName(number));
  }
  for (const number of [errno.EMFILE, errno.ENFILE, errno.ENOMEM]) assertEquals(sentBecauseOf(number), []);
});
