/**
 * NVIDIA's sample `simpleIPC`: one process for each device, each of which opens the memory of all devices through
 * legacy handles. Shared events order the steps on the devices; no process waits for a device before the end.
 *
 *     deno run --allow-ffi --allow-run examples/simple_ipc.ts [--devices 8]
 *
 * @module
 */
import { type Cuda, type CudaDevice, open } from "../mod.ts";
import { ptx } from "../kernels/fill.ts";
import { parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";
import { GroupMember, ProcessGroup, roleName } from "./process_group.ts";
import { bufferByteLength, findDevice, fullGrid, patternOf, pickDevices, verify } from "./sample_devices.ts";

const usage = "simple_ipc [--devices <most>]";
const about = `
NVIDIA's sample simpleIPC: one process for each device opens the memory of all devices through legacy handles.

--devices <n>  the most devices to use
`;

/** The parent's message about one device. */
interface SharedBuffer {
  readonly uuid: string;
  /** As hexadecimal digits, like `eventHandle`. */
  readonly memoryHandle: string;
  readonly eventHandle: string;
}

await runProgram(roleName, main, { usage, about });

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["devices", "child"]);
  if (named.child !== undefined) {
    const place = { number: Number(named.child), path: positional[0]! };
    return await GroupMember.run(place, (member) => child(member, signal), signal);
  }
  refuseSurplus(positional);
  const most = parseCount(named.devices ?? "8", { what: "the number of devices", least: 1 });
  await parent({ most }, signal);
}

function refusal(cuda: Cuda, device: CudaDevice): string | undefined {
  const hasEventAttribute = cuda.driverVersion >= 12000;
  if (hasEventAttribute && device.attribute("ipcEventSupport") === 0) return "it has no interprocess events";
  return device.attribute("unifiedAddressing") === 0 ? "it has no unified addressing" : undefined;
}

async function parent({ most }: { most: number }, signal: AbortSignal): Promise<void> {
  using cuda = open();
  const devices = pickDevices(cuda, { refusal: (device) => refusal(cuda, device), most });
  console.log(`Devices: ${devices.map(({ ordinal, name }) => `${ordinal} (${name})`).join(", ")}`);
  using resources = new DisposableStack();
  // Declared last, so that the children have ended before the memory is freed, even after an error.
  await using group = await ProcessGroup.start(new URL(import.meta.url), { size: devices.length, signal });

  const message = devices.map((device): SharedBuffer => {
    const buffer = resources.use(device.allocate(bufferByteLength));
    const event = resources.use(device.createEvent({ interprocess: true }));
    return {
      uuid: device.uuid,
      memoryHandle: buffer.exportHandle().toHex(),
      eventHandle: event.exportHandle().toHex(),
    };
  });
  await group.send(message);

  for (let step = 0; step < devices.length; step++) await group.barrier();
  // The children close the memory first, then this process frees it.
  await group.finished();
  console.log(`All ${devices.length} children have verified their buffers of ${bufferByteLength} bytes`);
}

async function child(member: GroupMember, signal: AbortSignal): Promise<void> {
  const { message } = await member.receive<SharedBuffer[]>();
  using cuda = open();
  const { number } = member;
  const device = findDevice(cuda, { ...message[number]!, number });
  using stream = device.createStream({ nonBlocking: true });
  using module = device.loadModule(ptx);
  const fill = module.kernel("fill");
  const geometry = fullGrid(device, fill);
  using opened = new DisposableStack();
  const shared = message.map(({ memoryHandle, eventHandle }) => {
    const event = opened.use(device.openEvent(Uint8Array.fromHex(eventHandle)));
    const buffer = opened.use(device.openMemory(Uint8Array.fromHex(memoryHandle), bufferByteLength));
    buffer.stream = stream;
    return { event, buffer };
  });

  for (let step = 0; step < shared.length; step++) {
    const { event, buffer } = shared[(number + step) % shared.length]!;
    // The stream, not the host, waits for the previous writer of the buffer.
    stream.wait(event);
    fill.launch({ ...geometry, stream }, buffer, buffer.byteLength, patternOf(number));
    stream.record(event);
    // A wait refers to the latest record at the time of the call, so all must record before any continues.
    await member.barrier();
  }
  const own = shared[number]!;
  stream.wait(own.event);
  await verify(own.buffer, (number + 1) % shared.length, stream);
  console.log(`Child ${number} on device ${device.ordinal}: every byte is right`);
  await stream.finished({ signal });
}
