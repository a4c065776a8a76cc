/**
 * Shows which features of stream-ordered memory and of sharing each device supports, and why it lacks others.
 *
 *     deno run --allow-ffi examples/device_query.ts
 *
 * Prints the versions of the driver and of libcudart, and a table with a column for each device: its name, UUID and
 * memory, "yes" or "no" with the reason for each feature, and the devices whose memory it can access. These features
 * are requirements of `CudaDevice.createPool`, `Cuda.createHostPool` and `CudaDevice.createEvent`.
 *
 * @module
 */
import { type Cuda, type CudaDevice, open } from "../mod.ts";
import { readArguments, refuseSurplus, runProgram } from "./command_line.ts";
import { formatSupport, formatVersion, supportOf } from "./device_support.ts";
import { formatTable } from "./table.ts";

const about = `
Shows which features of stream-ordered memory and of sharing each device supports, and why it lacks others.
`;

function main(): void {
  refuseSurplus(readArguments([]).positional);
  using cuda = open();
  console.log(describeVersions(cuda));
  const columns = cuda.devices.map((device) => describeDevice(cuda, device));
  const rows = columns[0]!.map(([property], row) => [property, ...columns.map((column) => column[row]![1])]);
  console.log(formatTable(rows));
}

function describeVersions({ driver, driverVersion, runtimeVersion }: Cuda): string {
  const kind = driver === "cuda" ? "of the GPU" : "as the software device emulates it";
  const runtime = runtimeVersion === undefined
    ? "none usable, libcuda is used alone"
    : `CUDA ${formatVersion(runtimeVersion)}`;
  return `driver: CUDA ${formatVersion(driverVersion)}, ${kind}\nlibcudart: ${runtime}\n`;
}

/** Returns the cells of a device's column, each with the name of its row. */
function describeDevice(cuda: Cuda, device: CudaDevice): [property: string, cell: string][] {
  const { free, total } = device.memoryInfo();
  const support = supportOf({
    driverVersion: cuda.driverVersion,
    attribute: (name) => device.attribute(name),
    createSharedPool: () => device.createPool({ handleType: "posix-fd" })[Symbol.dispose](),
  });
  return [
    ["device", String(device.ordinal)],
    ["name", device.name],
    ["UUID", device.uuid],
    ["compute capability", device.computeCapability.join(".")],
    ["memory", `${formatGibibytes(total)}, ${formatGibibytes(free)} of it free`],
    ["multiprocessors", String(device.attribute("multiProcessorCount"))],
    ...support.map((item): [string, string] => [item.property, formatSupport(item)]),
    ["peers", describePeers(cuda, device)],
  ];
}

function describePeers({ devices }: Cuda, device: CudaDevice): string {
  const others = devices.filter((other) => other !== device);
  if (others.length === 0) return "no: there is no other device";
  const peers = others.filter((other) => device.canAccessPeer(other));
  return peers.length === 0
    ? "no: it cannot access another device's memory"
    : `yes: ${peers.map(({ ordinal }) => ordinal).join(", ")}`;
}

function formatGibibytes(byteLength: number): string {
  return `${(byteLength / 2 ** 30).toFixed(1)} GiB`;
}

await runProgram("device_query", () => Promise.resolve(main()), { usage: "device_query", about });
