/**
 * NVIDIA's sample `simpleIPC`: a process for each device, and memory of every device opened by all of them through legacy
 * handles. Events that the processes share order the steps on the devices: nobody waits for a device before the end.
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

/** What the parent tells of each device. */
interface SharedBuffer {
  readonly uuid: string;
  /** Hexadecimal digits, both. */
  readonly memoryHandle: string;
  readonly eventHandle: string;
}

await runProgram(roleName, main, { usage });

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
  const isToldOfEvents = cuda.driverVersion >= 12000;
  if (isToldOfEvents && device.attribute("ipcEventSupport") === 0) return "it has no interprocess events";
  return device.attribute("unifiedAddressing") === 0 ? "it has no unified addressing" : undefined;
}

async function parent({ most }: { most: number }, signal: AbortSignal): Promise<void> {
  using cuda = open();
  const devices = pickDevices(cuda, { refusal: (device) => refusal(cuda, device), most });
  console.log(`Devices: ${devices.map(({ ordinal, name }) => `${ordinal} (${name})`).join(", ")}`);
  using resources = new DisposableStack();
  // Ended before the memory is freed: by themselves, or because something went wrong.
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
    // The stream, not the host, waits for whoever wrote to the buffer before.
    stream.wait(event);
    fill.launch({ ...geometry, stream }, buffer, buffer.byteLength, patternOf(number));
    stream.record(event);
    // A wait takes the record that there is when it is called: so all have recorded before any goes on.
    await member.barrier();
  }
  const own = shared[number]!;
  stream.wait(own.event);
  await verify(own.buffer, (number + 1) % shared.length, stream);
  console.log(`Child ${number} on device ${device.ordinal}: every byte is right`);
  await stream.finished({ signal });
}
