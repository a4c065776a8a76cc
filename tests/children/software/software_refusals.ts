// Prints how a software driver without FFI behaves: memory works, and sharing fails with the reason.
import { eventFlags, memHandleType, memLocationType } from "../../../src/driver.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { deviceAttributes } from "../../../src/support/device_attributes.ts";

const driver = new SoftwareDriver({ devices: 1, peers: true });
const address = driver.malloc(0, 64);
const pool = driver.memPoolCreate({
  handleTypes: memHandleType.none,
  location: { type: memLocationType.hostNuma, id: 0 },
  maxSize: 0n,
});
const host = driver.mallocFromPoolAsync(0, 64, pool, 0n);
driver.memcpyHtoDAsync(0, host, new Uint8Array(64).fill(7), 0n);
const locked = driver.hostAlloc(64);
driver.memcpyDtoHAsync(0, new Uint8Array(locked.buffer), host, 0n);
driver.memcpyHtoDAsync(0, address, new Uint8Array(locked.buffer), 0n);
driver.freeHost(locked);
const bytes = new Uint8Array(1);
driver.memcpyDtoHAsync(0, bytes, address, 0n);
console.log(bytes[0], driver.deviceGetAttribute(0, deviceAttributes.ipcEventSupport));
const refused = [
  () => driver.hostView(host, 64),
  () => driver.ipcGetMemHandle(0, address),
  () => driver.ipcOpenMemHandle(0, new Uint8Array(64)),
  () => driver.eventCreateWithFlags(0, eventFlags.interprocess | eventFlags.disableTiming),
  () => driver.ipcOpenEventHandle(0, new Uint8Array(64)),
];
for (const call of refused) {
  try {
    call();
  } catch (error) {
    console.log((error as Error).message);
  }
}
driver.free(0, address);
driver.close();
