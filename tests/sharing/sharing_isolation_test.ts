import { assertEquals } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { startScript } from "../support/child_process.ts";
import { driversUnderTest } from "../support/drivers.ts";
import { assertLeavesNothing } from "../support/resources.ts";
import { test } from "../support/test.ts";
import { noPython, startHostile } from "./hostile/hostile_peers.ts";

for (const driver of driversUnderTest) {
  const name = "a pool's descriptor reaches all of the pool, outlives its maker, and can be handed on";
  const handOn = async (): Promise<void> => {
    const folder = mkdtempSync("/tmp/poolpass-test-");
    try {
      const path = `${folder}/holder`;
      await using holder = startHostile("descriptor_holder.py", [path]);
      assertEquals(await holder.nextLine(), "ready");
      {
        await using maker = startScript("children/sharing/pool_maker.ts", [driver.name, path]);
        // Only the second buffer was given. The memory of a GPU's pool takes CUDA to map.
        const found = driver.name === "software" ? "finds pages of [1, 2]" : "finds no memory file";
        assertEquals(await holder.nextLine(), found);
        maker.kill("SIGKILL");
        await maker.ended;
      }
      using cuda = new Cuda(new Session(driver.open()));
      await using socket = await UnixSocket.connect(path);
      const { bytes, handles: [handle] } = await socket.receive(64, { handles: 1 });
      assertEquals(await holder.nextLine(), "handed on");
      using _handle = handle!;
      using pool = cuda.device(0).importPool(handle!);
      using buffer = pool.importPointer(bytes, 4096);
      assertEquals(await buffer.read(Uint8Array), new Uint8Array(4096).fill(2));
    } finally {
      rmSync(folder, { recursive: true });
    }
  };
  const options = { skip: driver.skip || noPython, long: true };
  test(`${name} [${driver.name}]`, options, () => assertLeavesNothing(handOn));
}
