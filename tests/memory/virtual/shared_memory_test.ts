/**
 * Virtual memory of one process in another one, which outlives the first.
 */
import { assertEquals, assertThrows } from "@std/assert";
import { openDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { CudaError, ShareableHandle, UnixSocket } from "../../../mod.ts";
import { startScript } from "../../support/child_process.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { inFolder } from "../../support/folders.ts";

testOnEachDriver(
  "memory of a process that is killed stays where it is mapped, and in its descriptor",
  async (cuda, driver) => {
    const gpu = cuda.device(0);
    await inFolder(async (folder) => {
      const path = `${folder}/memory.sock`;
      await using child = startScript("children/memory/hold_memory.ts", [driver.name.split(" ")[0]!, path]);
      assertEquals(await child.nextLine(), "listening");
      await using socket = await UnixSocket.connect(path);
      const { bytes, handles: [handle] } = await socket.receive(8, { handles: 1 });
      using _handle = handle!;
      const byteLength = Number(new BigUint64Array(bytes.buffer)[0]);
      using memory = gpu.importMemory(handle!, byteLength);
      assertEquals([memory.byteLength, memory.handleType], [byteLength, "none"]);
      using range = cuda.reserveAddresses(2 * byteLength);
      const buffer = range.map(memory);
      assertEquals(new Set(await buffer.read(Uint8Array)), new Set([0x21]));
      buffer.fill(0x43);
      gpu.synchronize();
      await socket.send(new Uint8Array(1));
      assertEquals((await socket.receive(1)).bytes, Uint8Array.of(0x43));
      child.kill("SIGKILL");
      await child.ended;
      buffer.fill(0x65);
      gpu.synchronize();
      buffer.free();
      memory[Symbol.dispose]();
      // Only the descriptor has it now.
      using again = gpu.importMemory(handle!, byteLength);
      assertEquals(new Set(await range.map(again, { access: "read" }).read(Uint8Array)), new Set([0x65]));
    });
  },
);

testOnEachDriver("what is not the memory that it is said to be is refused, and nothing is kept of it", (cuda) => {
  const gpu = cuda.device(0);
  using memory = gpu.createMemory(2 ** 21, { handleType: "posix-fd" });
  using handle = memory.exportHandle();
  for (const size of [2 ** 20, 2 ** 22, 1]) {
    assertThrows(() => gpu.importMemory(handle, size), RangeError, "Cannot import memory from the descriptor");
  }
  assertThrows(() => gpu.importMemory(handle, 0), RangeError, "Cannot use 0");
  assertThrows(() => gpu.importMemory(3 as never, 1), TypeError, "Cannot import memory from 3");
  using file = ShareableHandle.fromFd(openDescriptor("/dev/null", { writable: false }));
  assertThrows(() => gpu.importMemory(file, 2 ** 21), CudaError, "it must come from a PhysicalMemory's exportHandle");
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using ofPool = pool.exportHandle();
  assertThrows(() => gpu.importMemory(ofPool, 2 ** 21), CudaError, "cudaErrorNotSupported");
  assertThrows(() => gpu.importPool(handle), CudaError, "cudaErrorNotSupported");
  using imported = gpu.importMemory(handle, 2 ** 21);
  assertThrows(
    () => imported.exportHandle(),
    TypeError,
    "it was imported; pass on the handle that it was imported from",
  );
});
