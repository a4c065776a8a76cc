/**
 * Holds back work of a software device until somebody waits for it.
 *
 * @module
 */
import { closeSync, openSync, writeSync } from "node:fs";
import { type Driver, eventFlags } from "../../src/driver.ts";
import { decodeIpcHandle, ipcKind } from "../../src/software/ipc/ipc_file.ts";
import { pageByteLength } from "../../src/software/memory/memory_layout.ts";

const synchronizations = ["deviceSynchronize", "streamSynchronize", "eventSynchronize"] as const;
const gates = new WeakMap<Driver, Gate>();

/**
 * A gate in front of work. It is an interprocess event with a record that seems to be another process's, which comes to
 * pass when the gate opens. Unlike work that merely takes long, it cannot be over before the row has observed it,
 * however slowly another process answers.
 */
export class Gate {
  readonly #driver: Driver;
  readonly #event: bigint;
  readonly #path: string;
  #records = 0n;

  private constructor(driver: Driver) {
    this.#driver = driver;
    this.#event = driver.eventCreateWithFlags(0, eventFlags.disableTiming | eventFlags.interprocess);
    const decoded = decodeIpcHandle(ipcKind.event, driver.ipcGetEventHandle(this.#event))!;
    this.#path = `/proc/self/fd/${decoded.location.fd}`;
    for (const name of synchronizations) {
      const synchronize = driver[name].bind(driver) as (...values: unknown[]) => void;
      driver[name] = (...values: unknown[]) => {
        this.open();
        synchronize(...values);
      };
    }
  }

  /** The gate of a software driver. It opens whenever the driver synchronizes. */
  static of(driver: Driver): Gate {
    let gate = gates.get(driver);
    if (gate === undefined) gates.set(driver, gate = new Gate(driver));
    return gate;
  }

  /** Opens the gate of a driver, if it has one. */
  static open(driver: Driver): void {
    gates.get(driver)?.open();
  }

  /** Makes the next work of a stream wait until the gate opens. */
  close(device: number, stream: bigint): void {
    this.#write(0, ++this.#records);
    this.#driver.streamWaitEvent(device, stream, this.#event);
  }

  /** Lets the work go on. */
  open(): void {
    for (let record = 1n; record <= this.#records; record++) this.#write(1 + Number(record), record);
  }

  /** Writes a word of the event's state, which `interprocess_event.ts` describes: the count of records, then those done. */
  #write(index: number, value: bigint): void {
    const file = openSync(this.#path, "r+");
    try {
      writeSync(
        file,
        new Uint8Array(BigInt64Array.of(value).buffer),
        0,
        8,
        pageByteLength + 8 * index,
      );
    } finally {
      closeSync(file);
    }
  }
}
