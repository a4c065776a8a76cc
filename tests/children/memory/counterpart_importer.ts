/**
 * Maps memory of another process as requests over a socket ask for. Arguments: the driver's name, and the path to
 * listen at. Connections are served one after the other, and imports that are kept outlast their connection.
 * `counterparts_messages.ts` in `tests/memory/memory_ipc/` lists the requests.
 *
 * @module
 */
import process from "node:process";
import { ptx } from "../../../kernels/fill.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import type { CudaEvent } from "../../../src/objects/streams/cuda_event.ts";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";
import type { ImportedMemoryPool } from "../../../src/memory/handles/imported_memory_pool.ts";
import { Session } from "../../../src/session.ts";
import type { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { loadDriver } from "../../conformance/load_driver.ts";
import {
  ask,
  type ImporterTask,
  type MemoryAddress,
  receiveValue,
  sendValue,
} from "../../memory/memory_ipc/counterparts_messages.ts";
import { countResources } from "../../support/resources.ts";
import { indexOfOther } from "../../support/bytes.ts";

const [driverName, path] = process.argv.slice(2) as [string, string];
const openDriver = await loadDriver(driverName);
using cuda = new Cuda(new Session(openDriver()));
const gpu = cuda.device(0);
using stream = gpu.createStream({ nonBlocking: true });
using cleanUp = new DisposableStack();
/** Descriptors that the runtime opens and closes at any time. */
const runtimeKinds = new Set(["socket", "pipe", "eventfd", "eventpoll"]);
const pools: ImportedMemoryPool[] = [];
/** Received handles, which stay open to be forwarded. */
const handles: ShareableHandle[] = [];
let kept: DeviceBuffer | undefined;
let behind: { buffer: DeviceBuffer; event: CudaEvent } | undefined;
let isOver = false;

{
  await using listener = UnixListener.listen(path);
  console.log("listens");
  while (!isOver) {
    await using socket = await listener.accept();
    try {
      while (!isOver) {
        const { value, handles } = await receiveValue<ImporterTask>(socket);
        await sendValue(socket, await perform(value, handles));
      }
    } catch (error) {
      if ((error as { code?: string }).code !== "peer-gone") throw error;
    }
  }
}

async function perform(task: ImporterTask, received: readonly ShareableHandle[]): Promise<unknown> {
  switch (task.do) {
    case "import":
      for (const handle of received) {
        pools.push(cleanUp.use(cuda.device(task.device ?? 0).importPool(handle)));
        handles.push(cleanUp.use(handle));
      }
      return pools.length;
    case "use": {
      using buffer = map(task.memory);
      const isRight = indexOfOther(await buffer.read(Uint8Array), task.expect) === -1;
      buffer.copyFrom(new Uint8Array(buffer.byteLength).fill(task.write));
      await buffer.stream.finished();
      return isRight;
    }
    case "keep":
      kept = cleanUp.use(map(task.memory));
      return (await kept.read(Uint8Array))[0];
    case "increment": {
      const [byte] = await kept!.read(Uint8Array, { length: 1 });
      kept!.copyFrom(new Uint8Array(kept!.byteLength).fill(byte! + 1));
      await kept!.stream.finished();
      return true;
    }
    case "forward": {
      await using next = await UnixSocket.connect(task.path);
      await ask(next, { do: "import" }, [handles[task.memory.pool]!]);
      return await ask(next, { do: "keep", memory: { ...task.memory, pool: 0 } });
    }
    case "write behind": {
      const buffer = map(task.memory);
      const event = gpu.openEvent(Uint8Array.fromHex(task.event));
      stream.wait(event);
      buffer.fill(task.write, stream);
      behind = { buffer, event };
      return { isDone: stream.query(), isOfDevice: event.device === gpu };
    }
    case "finish": {
      using _event = behind!.event;
      behind!.event.synchronize();
      await stream.finished();
      behind!.buffer.free(stream);
      await stream.finished();
      return true;
    }
    case "use as peer":
      return await useAsPeer(task);
    case "count":
      // Waits for the stream, because freed memory is unmapped in stream order.
      gpu.synchronize();
      return [...countResources()].filter(([kind]) => !runtimeKinds.has(kind)).sort();
    case "end":
      isOver = true;
      return true;
  }
}

function map({ pool, data, byteLength }: MemoryAddress): DeviceBuffer {
  const imported = pools[pool]!;
  if (imported.getAccess(gpu) === "none") imported.setAccess(gpu, "read-write");
  return imported.importPointer(Uint8Array.fromHex(data), byteLength);
}

/** The last launch has no access. It makes the device's context unusable. */
async function useAsPeer(
  { memory, isGivenFirst }: { memory: MemoryAddress; isGivenFirst: boolean },
): Promise<Record<string, unknown>> {
  const owner = pools[memory.pool]!;
  const peer = cuda.devices.find((device) => device !== owner.device)!;
  const accesses = [owner.getAccess(peer)];
  if (isGivenFirst) owner.setAccess(peer, "read-write");
  const buffer = owner.importPointer(Uint8Array.fromHex(memory.data), memory.byteLength);
  if (!isGivenFirst) owner.setAccess(peer, "read-write");
  accesses.push(owner.getAccess(peer));
  const fill = peer.loadModule(ptx).kernel("fill");
  const peerStream = peer.createStream();
  const use = async (pattern: number): Promise<string> => {
    try {
      fill.launch({ grid: 1, block: 64, stream: peerStream }, buffer, buffer.byteLength, pattern);
      await peerStream.finished();
      return "fine";
    } catch (error) {
      return (error as { code: string }).code;
    }
  };
  const withAccess = await use(0x09090909);
  owner.setAccess(peer, "none");
  accesses.push(owner.getAccess(peer));
  return { accesses, withAccess, without: await use(0x0a0a0a0a) };
}
