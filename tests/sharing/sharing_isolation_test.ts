import { assertEquals } from "@std/assert";
import { dirname } from "node:path";
import { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { startScript } from "../support/child_process.ts";
import { noPython, startHostile } from "./hostile/hostile_peers.ts";
import { sharingTest } from "./sharing_peers.ts";

sharingTest("a pool's descriptor reaches all of the pool, outlives its maker, and can be handed on", async ({
  cuda,
  gpu,
  path,
}) => {
  const holderPath = `${dirname(path)}/holder`;
  await using holder = startHostile("descriptor_holder.py", [holderPath]);
  assertEquals(await holder.nextLine(), "ready");
  {
    await using maker = startScript("children/sharing/pool_maker.ts", [cuda.driver, holderPath]);
    // Only the second buffer was given. The memory of a GPU's pool takes CUDA to map.
    const found = cuda.driver === "software" ? "finds pages of [1, 2]" : "finds no memory file";
    assertEquals(await holder.nextLine(), found);
    maker.kill("SIGKILL");
    await maker.ended;
  }
  await using socket = await UnixSocket.connect(holderPath);
  const { bytes, handles: [handle] } = await socket.receive(64, { handles: 1 });
  assertEquals(await holder.nextLine(), "handed on");
  using _handle = handle!;
  using pool = gpu.importPool(handle!);
  {
    using buffer = pool.importPointer(bytes, 4096);
    assertEquals(await buffer.read(Uint8Array), new Uint8Array(4096).fill(2));
  }
  await gpu.finished();
}, { skip: noPython, long: true });
