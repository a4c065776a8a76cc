// Makes a stream wait for another process's event, and does nothing else: software_waiter.ts HANDLE.
import process from "node:process";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";

const driver = new SoftwareDriver({ devices: 1, peers: true });
const event = driver.ipcOpenEventHandle(0, Uint8Array.fromHex(process.argv[2]!));
driver.streamWaitEvent(0, 0n, event);
console.log(driver.streamQuery(0, 0n) ? "done" : "waiting");
