/**
 * NVIDIA's sample `memMapIPCDrv`: memory of every device, without an address, shared by one process for each device.
 * Each process maps all of it side by side in one address range, writes to all parts in turn, each one step ahead of
 * the next, and at the end verifies the part on its own device, mapped anew for reading.
 *
 *     deno run --allow-ffi --allow-run examples/mem_map_ipc.ts [--devices 8] [--children-see 1,0]
 *
 * The parent maps nothing: it only holds the memory. `--children-see` sets CUDA_VISIBLE_DEVICES for the children.
 * Without a GPU, `POOLPASS_SOFTWARE_DEVICES=4` runs it on four software devices.
 *
 * @module
 */
import { open } from "../mod.ts";
import { ptx } from "../kernels/fill.ts";
import { parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";
import { GroupMember, ProcessGroup, roleName } from "./process_group.ts";
import { bufferByteLength, findDevice, fullGrid, patternOf, pickDevices, verify } from "./sample_devices.ts";

const usage = "mem_map_ipc [--devices <most>] [--children-see <CUDA_VISIBLE_DEVICES>]";
const about = `
NVIDIA's sample memMapIPCDrv: memory without addresses, which one process for each device maps side by side.

--devices <n>               the most devices to use
--children-see <ordinals>   sets CUDA_VISIBLE_DEVICES for the children: 1,0
`;

/** The parent's message about the memory of one device; its descriptor is sent alongside. */
interface SharedMemory {
  readonly uuid: string;
  readonly byteLength: number;
}

await runProgram(roleName, main, { usage, about });

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["devices", "children-see", "child"]);
  if (named.child !== undefined) {
    const place = { number: Number(named.child), path: positional[0]! };
    return await GroupMember.run(place, (member) => child(member, signal), signal);
  }
  refuseSurplus(positional);
  const most = parseCount(named.devices ?? "8", { what: "the number of devices", least: 1 });
  await parent({ most, visibleDevices: named["children-see"] }, signal);
}

async function parent(
  { most, visibleDevices }: { most: number; visibleDevices: string | undefined },
  signal: AbortSignal,
): Promise<void> {
  using cuda = open();
  const refusal = () => cuda.driverVersion < 10020 ? "its driver is older than CUDA 10.2" : undefined;
  const devices = pickDevices(cuda, { refusal, most });
  console.log(`Devices: ${devices.map(({ ordinal, name }) => `${ordinal} (${name})`).join(", ")}`);
  using resources = new DisposableStack();
  await using group = await ProcessGroup.start(new URL(import.meta.url), {
    size: devices.length,
    signal,
    visibleDevices,
  });
  const memories = devices.map((device) =>
    resources.use(device.createMemory(bufferByteLength, { handleType: "posix-fd" }))
  );
  const handles = memories.map((memory) => resources.use(memory.exportHandle()));
  const message = memories.map(({ device: { uuid }, byteLength }): SharedMemory => ({ uuid, byteLength }));
  await group.send(message, handles);
  for (let step = 0; step < devices.length; step++) await group.barrier();
  await group.finished();
  console.log(`All ${devices.length} children have verified their buffers of ${bufferByteLength} bytes`);
}

async function child(member: GroupMember, signal: AbortSignal): Promise<void> {
  const { message, handles } = await member.receive<SharedMemory[]>();
  using resources = new DisposableStack();
  for (const handle of handles) resources.use(handle);
  using cuda = open();
  const { number } = member;
  const residents = message.map(({ uuid }, number) => findDevice(cuda, { uuid, number }));
  const device = residents[number]!;
  using stream = device.createStream({ nonBlocking: true });
  using module = device.loadModule(ptx);
  const fill = module.kernel("fill");
  const geometry = fullGrid(device, fill);

  const total = message.reduce((sum, { byteLength }) => sum + byteLength, 0);
  using range = cuda.reserveAddresses(total);
  const memories = message.map(({ byteLength }, index) =>
    resources.use(residents[index]!.importMemory(handles[index]!, byteLength))
  );
  const parts = memories.map((memory) => {
    const part = range.map(memory, { devices: device });
    part.stream = stream;
    return part;
  });
  for (let step = 0; step < parts.length; step++) {
    const part = parts[(number + step) % parts.length]!;
    fill.launch({ ...geometry, stream }, part, part.byteLength, patternOf(number));
    await stream.finished({ signal });
    await member.barrier();
  }
  using own = cuda.reserveAddresses(memories[number]!.byteLength);
  const readable = own.map(memories[number]!, { access: "read" });
  // The next process was the last to write to this device's memory.
  await verify(readable, (number + 1) % parts.length, stream);
  console.log(`Child ${number} on device ${device.ordinal}: every byte is right`);
}
