/**
 * What the 64 bytes of a legacy IPC handle state. CUDA calls them opaque, but its driver believes them: the place of an
 * event that does not exist ends the process that opens it, and an offset beyond the memory costs it its context (driver
 * 580, measured). They are therefore read before the driver sees them.
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

/** The places of an event handle's fields, as indices of u32: its process, and its place among the process's events. */
const eventFields = { process: 0, place: 4 } as const;
/** The fields of an event handle that are 0. */
const zeroFields = [1, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] as const;
/** Places from here on do not exist. */
const eventPlaces = 4096;
/** The places of a memory handle's fields, as indices of u32. A size has two of them. */
const memoryFields = { process: 2, size: 4, blockPages: 6, offset: 7 } as const;
const pageByteLength = 4096;

/** A handle that is being read. */
const words = new Uint32Array(ipcHandleByteLength / Uint32Array.BYTES_PER_ELEMENT);
const bytes = new Uint8Array(words.buffer);

/** Whether the driver may open a handle: `"unknown"` if the driver's handles have a layout that is not known. */
export type HandleJudgment = "good" | "forged" | "unknown";

/**
 * Whether the driver may open the handle of another process's event on a device: it is good if the driver of that
 * process has made it, as far as this process can tell.
 */
export function judgeEvent(
  device: CudaDevice,
  { handle, processId }: { handle: Uint8Array; processId: number },
): HandleJudgment {
  return sessionOfDevice(device).ipcHandleLayouts.judgeEvent(device.ordinal, handle, processId);
}

/** The layouts of the driver's handles, each tried at its first use. */
export class IpcHandleLayouts {
  readonly #session: Session;
  #isEventKnown: boolean | undefined;
  #isMemoryKnown: boolean | undefined;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Judges the handle of another process's event, on a device: that of the process with an ID, if that is given. */
  judgeEvent(device: number, handle: Uint8Array, processId?: number): HandleJudgment {
    if (this.#session.driver.checksHandles) return "good";
    this.#isEventKnown ??= areEventHandlesKnown(this.#session.driver, device);
    if (!this.#isEventKnown) return "unknown";
    bytes.set(handle);
    const isOfProcess = processId === undefined || words[eventFields.process] === processId;
    return isOfProcess && isEvent() ? "good" : "forged";
  }

  /**
   * Throws the error of `cudaIpcOpenEventHandle` for a handle that would end this process. Where the layout is not known,
   * the driver decides.
   */
  checkEvent(device: number, handle: Uint8Array): void {
    if (this.judgeEvent(device, handle) !== "forged") return;
    countRefusedEvent("forged");
    throw new CudaError(cudaErrorNumbers.cudaErrorMapBufferObjectFailed, "cudaIpcOpenEventHandle");
  }

  /**
   * Throws the error of `cudaIpcOpenMemHandle` for a handle that would cost this process its context. Where the layout is
   * not known, the driver decides.
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

/** Whether the handles of a driver's events have the layout that is known. Tries it with two events, and keeps nothing. */
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

/** Checks whether the handles of two own allocations have the known layout. */
function isMemoryLayoutKnown(session: Session, device: number): boolean {
  const { driver } = session;
  const processId = shim().poolpass_getpid();
  return [4096, 3 * 2 ** 20].every((expected) => {
    const address = driver.malloc(device, expected);
    try {
      bytes.set(driver.ipcGetMemHandle(device, address));
      return words[memoryFields.process] === processId && memoryByteLength() === expected && isMemory();
    } finally {
      // Freeing blocks behind all work of the device.
      session.afterWork(session.streams, () => driver.free(device, address));
    }
  });
}

/** The result of an attempt; false if CUDA refuses it, as it does where there is no IPC. Throws what may pass. */
function ignoreRefusal(attempt: () => boolean): boolean {
  try {
    return attempt();
  } catch (error) {
    if (error instanceof CudaError && !mayPass(error)) return false;
    throw error;
  }
}
