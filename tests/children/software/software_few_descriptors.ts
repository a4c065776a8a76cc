// Uses another process's event and memory while no descriptor is free: node
// tests/children/software/software_few_descriptors.ts HANDLE. The event of the handle has a pending record. Prints the
// outcome for the event, and for memory that was mapped before.
import process from "node:process";
import { closeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { memHandleType, memLocationType } from "../../../src/driver.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { codeOf, readBytes } from "../../support/software_calls.ts";
import { takeAllDescriptors } from "../../support/take_all_descriptors.ts";

const driver = new SoftwareDriver({ devices: 1, peers: true });
const handle = Uint8Array.fromHex(process.argv[2]!);
const handleTypes = memHandleType.posixFileDescriptor;
const pool = driver.memPoolCreate({ handleTypes, location: { type: memLocationType.device, id: 0 }, maxSize: 0n });
const fd = driver.memPoolExportToShareableHandle(pool, handleTypes) as number;
const address = driver.mallocFromPoolAsync(0, 4096, pool, 0n);
driver.memsetAsync(0, address, 7, 4096, 0n);
const imported = driver.memPoolImportFromShareableHandle(0, fd, handleTypes);
const mapped = driver.memPoolImportPointer(0, imported, driver.memPoolExportPointer(address));

const taken = takeAllDescriptors(fd);
console.log("no descriptors:", codeOf(() => driver.ipcOpenEventHandle(0, handle)));
driver.freeAsync(0, address, 0n);
driver.deviceSynchronize(0);
for (const other of taken) closeDescriptor(other);

console.log("mapped:", readBytes(driver, mapped, 4096)[0]);
console.log("event:", driver.eventQuery(driver.ipcOpenEventHandle(0, handle)));
driver.close();
closeDescriptor(fd);
