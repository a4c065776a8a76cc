/**
 * NVIDIA's sample `streamOrderedAllocationIPC`: one process for each device, and a pool of every device shared by all
 * of them. The processes write to all buffers in turn, each one step ahead of the next, and at the end each verifies
 * the buffer of its own device.
 *
 *     deno run --allow-ffi --allow-run examples/stream_ordered_allocation_ipc.ts [--devices 8] [--children-see 1,0]
 *
 * `--children-see` sets CUDA_VISIBLE_DEVICES for the children. Any order works, because devices are found by UUID.
 * Without a GPU, `POOLPASS_SOFTWARE_DEVICES=4` runs it on four software devices.
 *
 * @module
 */
import { type Cuda, type CudaDevice, open } from "../mod.ts";
import { ptx } from "../kernels/fill.ts";
import { parseCount, readArguments, refuseSurplus, runProgram } from "./command_line.ts";
import { GroupMember, ProcessGroup, roleName } from "./process_group.ts";
import { bufferByteLength, findDevice, fullGrid, patternOf, pickDevices, verify } from "./sample_devices.ts";

const usage = "stream_ordered_allocation_ipc [--devices <most>] [--children-see <CUDA_VISIBLE_DEVICES>]";
const about = `
NVIDIA's sample streamOrderedAllocationIPC: one process for each device, and a pool of every device shared by all.

--devices <n>               the most devices to use
--children-see <ordinals>   sets CUDA_VISIBLE_DEVICES for the children: 1,0
`;
const posixFileDescriptor = 1;

/** The parent's message about one device; the descriptor of its pool is sent alongside. */
interface SharedBuffer {
  readonly uuid: string;
  /** As hexadecimal digits. */
  readonly exportData: string;
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

function refusal(cuda: Cuda, device: CudaDevice): string | undefined {
  if (cuda.driverVersion < 11030) return "its driver is older than CUDA 11.3, which shares pools";
  if (device.attribute("memoryPoolsSupported") === 0) return "it has no memory pools";
  const handleTypes = device.attribute("memoryPoolSupportedHandleTypes");
  return (handleTypes & posixFileDescriptor) === 0 ? "its pools cannot be shared" : undefined;
}

async function parent(
  { most, visibleDevices }: { most: number; visibleDevices: string | undefined },
  signal: AbortSignal,
): Promise<void> {
  using cuda = open();
  const devices = pickDevices(cuda, { refusal: (device) => refusal(cuda, device), most });
  console.log(`Devices: ${devices.map(({ ordinal, name }) => `${ordinal} (${name})`).join(", ")}`);
  using resources = new DisposableStack();
  // Declared last, so that the children have ended before the memory is freed, even after an error.
  await using group = await ProcessGroup.start(new URL(import.meta.url), {
    size: devices.length,
    signal,
    visibleDevices,
  });

  const streams = devices.map((device) => resources.use(device.createStream({ nonBlocking: true })));
  const pools = devices.map((device) => resources.use(device.createPool({ handleType: "posix-fd" })));
  const buffers = pools.map((pool, index) => resources.use(pool.allocate(bufferByteLength, streams[index])));
  const handles = pools.map((pool) => resources.use(pool.exportHandle()));
  // Other processes may use the memory once the stream has completed the allocation.
  for (const stream of streams) await stream.finished({ signal });
  const message = buffers.map((buffer, index): SharedBuffer => ({
    uuid: devices[index]!.uuid,
    exportData: buffer.exportPointer().toHex(),
  }));
  await group.send(message, handles);

  for (let step = 0; step < devices.length; step++) await group.barrier();
  // The children free their mappings first, then this process frees the memory.
  await group.finished();
  console.log(`All ${devices.length} children have verified their buffers of ${bufferByteLength} bytes`);
}

async function child(member: GroupMember, signal: AbortSignal): Promise<void> {
  const { message, handles } = await member.receive<SharedBuffer[]>();
  using resources = new DisposableStack();
  for (const handle of handles) resources.use(handle);
  using cuda = open();
  const residents = message.map(({ uuid }, number) => findDevice(cuda, { uuid, number }));
  const { number } = member;
  const device = residents[number]!;
  using stream = device.createStream({ nonBlocking: true });
  using module = device.loadModule(ptx);
  const fill = module.kernel("fill");
  const geometry = fullGrid(device, fill);

  using mapped = new DisposableStack();
  const buffers = message.map(({ exportData }, index) => {
    const pool = mapped.use(residents[index]!.importPool(handles[index]!));
    if (pool.getAccess(device) !== "read-write") pool.setAccess(device, "read-write");
    const buffer = mapped.use(pool.importPointer(Uint8Array.fromHex(exportData), bufferByteLength));
    buffer.stream = stream;
    return buffer;
  });
  for (let step = 0; step < buffers.length; step++) {
    const buffer = buffers[(number + step) % buffers.length]!;
    fill.launch({ ...geometry, stream }, buffer, buffer.byteLength, patternOf(number));
    await stream.finished({ signal });
    await member.barrier();
  }
  // The next process was the last to write to this device's buffer.
  await verify(buffers[number]!, (number + 1) % buffers.length, stream);
  console.log(`Child ${number} on device ${device.ordinal}: every byte is right`);
}
