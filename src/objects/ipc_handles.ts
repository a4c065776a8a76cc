/**
 * Reads the 64 bytes of legacy IPC handles. CUDA documents them as opaque, but the driver does not validate them: the
 * slot of an event that does not exist crashes the process that opens it, and an offset beyond the memory makes the
 * process lose its context (driver 580, measured). If they have the known layout, they are therefore checked before
 * they are passed to the driver.
 *
 * @module
 */
import { shim } from "../../ffi/native/shim/shim.ts";
import { type Driver, eventFlags, ipcHandleByteLength } from "../driver.ts";
import { mayPass } from "../memory/handles/export_data.ts";
import type { Session } from "../session.ts";
import type { CudaDevice } from "./cuda_device.ts";
import { sessionOfDevice } from "./device_sessions.ts";
import { CudaError, cudaErrorNumbers } from "../support/errors.ts";
import { countRefusedEvent, refusedImport } from "../support/refusals.ts";

/** The indices of an event handle's fields, in units of u32: the process ID, and the event's slot in its process. */
const eventFields = { process: 0, place: 4 } as const;
/** The indices of the event handle's fields that must be 0. */
const zeroFields = [1, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] as const;
/** The number of event slots; valid indices are below this. */
const eventPlaces = 4096;
/** The indices of a memory handle's fields, in units of u32. The `size` occupies two units. */
const memoryFields = { process: 2, size: 4, blockPages: 6, offset: 7 } as const;
const pageByteLength = 4096;

/** The IPC handle that is being checked, as 32-bit words. */
const words = new Uint32Array(ipcHandleByteLength / Uint32Array.BYTES_PER_ELEMENT);
const bytes = new Uint8Array(words.buffer);

/** Whether the driver may open a handle: `"unknown"` if the driver's handles do not have the known layout. */
export type HandleJudgment = "good" | "forged" | "unknown";

/**
 * Returns whether the driver may open the handle of another process's event on a device. `"good"` means that the handle
 * appears to have been created by that process's driver.
 */
export function judgeEvent(
  device: CudaDevice,
  { handle, processId }: { handle: Uint8Array; processId: number },
): HandleJudgment {
  return sessionOfDevice(device).ipcHandleLayouts.judgeEvent(device.ordinal, handle, processId);
}

/** Whether the driver's handles have the known layouts. Each is determined on first use. */
export class IpcHandleLayouts {
  readonly #session: Session;
  #isEventKnown: boolean | undefined;
  #isMemoryKnown: boolean | undefined;

  constructor(session: Session) {
    this.#session = session;
  }

  /**
   * Returns whether the driver may open the handle of another process's event. If `processId` is given, the event must
   * belong to that process.
   */
  judgeEvent(device: number, handle: Uint8Array, processId?: number): HandleJudgment {
    if (this.#session.driver.checksHandles) return "good";
    this.#isEventKnown ??= areEventHandlesKnown(this.#session.driver, device);
    if (!this.#isEventKnown) return "unknown";
    bytes.set(handle);
    const isOfProcess = processId === undefined || words[eventFields.process] === processId;
    return isOfProcess && isEvent() ? "good" : "forged";
  }

  /**
   * Throws the error that `cudaIpcOpenEventHandle` returns for an invalid handle if opening this handle would crash the
   * process. If the layout is not known, the handle is passed to the driver unchecked.
   */
  checkEvent(device: number, handle: Uint8Array): void {
    if (this.judgeEvent(device, handle) !== "forged") return;
    countRefusedEvent("forged");
    throw new CudaError(cudaErrorNumbers.cudaErrorMapBufferObjectFailed, "cudaIpcOpenEventHandle");
  }

  /**
   * Throws the error that `cudaIpcOpenMemHandle` returns for an invalid handle if opening this handle would make the
   * process lose its context. If the layout is not known, the handle is passed to the driver unchecked.
   */
  checkMemory(device: number, handle: Uint8Array): void {
    if (this.#session.driver.checksHandles) return;
    this.#isMemoryKnown ??= ignoreRefusal(() => isMemoryLayoutKnown(this.#session, device));
    if (!this.#isMemoryKnown) return;
    bytes.set(handle);
    if (isMemory()) return;
    throw refusedImport(new CudaError(cudaErrorNumbers.cudaErrorInvalidValue, "cudaIpcOpenMemHandle"));
  }
}

function isEvent(): boolean {
  return words[eventFields.place]! < eventPlaces && zeroFields.every((field) => words[field] === 0);
}

function isMemory(): boolean {
  const byteLength = memoryByteLength();
  const blockByteLength = words[memoryFields.blockPages]! * pageByteLength;
  return byteLength > 0 && words[memoryFields.offset]! + byteLength <= blockByteLength;
}

function memoryByteLength(): number {
  return words[memoryFields.size]! + words[memoryFields.size + 1]! * 2 ** 32;
}

/**
 * Returns whether a driver's event handles have the known layout. Creates two events to find out, and destroys them.
 */
export function areEventHandlesKnown(driver: Driver, device: number): boolean {
  return ignoreRefusal(() => isEventLayoutKnown(driver, device));
}

function isEventLayoutKnown(driver: Driver, device: number): boolean {
  using undo = new DisposableStack();
  const processId = shim().poolpass_getpid();
  const places = [0, 1].map(() => {
    const event = driver.eventCreateWithFlags(device, eventFlags.disableTiming | eventFlags.interprocess);
    undo.defer(() => driver.eventDestroy(device, event));
    bytes.set(driver.ipcGetEventHandle(event));
    return words[eventFields.process] === processId && isEvent() ? words[eventFields.place] : undefined;
  });
  return !places.includes(undefined) && places[0] !== places[1];
}

/** Returns whether the handles of two allocations of this process have the known layout. */
function isMemoryLayoutKnown(session: Session, device: number): boolean {
  const { driver } = session;
  const processId = shim().poolpass_getpid();
  return [4096, 3 * 2 ** 20].every((expected) => {
    const address = driver.malloc(device, expected);
    try {
      bytes.set(driver.ipcGetMemHandle(device, address));
      return words[memoryFields.process] === processId && memoryByteLength() === expected && isMemory();
    } finally {
      // The allocations are freed later, because freeing them would block until all work of the device is done.
      session.afterWork(session.streams, () => driver.free(device, address));
    }
  });
}

/**
 * Returns the result of `attempt`, or false if it fails because CUDA does not support IPC on this system. Rethrows
 * errors that may be temporary.
 */
function ignoreRefusal(attempt: () => boolean): boolean {
  try {
    return attempt();
  } catch (error) {
    if (error instanceof CudaError && !mayPass(error)) return false;
    throw error;
  }
}
