/**
 * `poolpass devices`: lists the devices that `open()` finds on this machine.
 *
 * @module
 */
import type { Cuda, CudaDevice } from "../mod.ts";
import { formatVersion } from "../src/support/version.ts";
import { type Command, readOptions, type Terminal, UsageError } from "./command_line.ts";
import { formatJson } from "./status/json.ts";
import { printable } from "./status/table.ts";
import { openCuda } from "./open_cuda.ts";

const help = `Usage: poolpass devices [options]

Lists the devices that open() finds, which are GPUs or software devices: their numbers in this process, names, UUIDs,
memory, and the devices whose memory they can access.

Options:
  --driver NAME   cuda or software, as open({ driver }); otherwise, what POOLPASS_DRIVER says, or a GPU if there is one
  --json          print JSON: an object with the driver, its versions and an array of devices

Examples:
  poolpass devices
  CUDA_VISIBLE_DEVICES=1 poolpass devices --json`;

const options = {
  driver: { type: "string" },
  json: { type: "boolean" },
} as const;

/** The description of a device in the JSON output. */
interface DescribedDevice {
  readonly ordinal: number;
  readonly name: string;
  readonly uuid: string;
  readonly computeCapability: string;
  /** The free and the total memory in bytes. */
  readonly memory: { readonly free: number; readonly total: number };
  /** The ordinals of the devices whose memory this device can access. */
  readonly peers: readonly number[];
}

/** The command `poolpass devices`. */
export const devicesCommand: Command = { name: "devices", summary: "list the devices that programs find", help, run };

function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const { files, values: { driver, json } } = readOptions(args, options);
  if (files.length > 0) throw new UsageError(`There is nothing to do with "${files[0]}"`);
  using cuda = openCuda(driver);
  const all = cuda.devices.map((device) => describe(cuda, device));
  terminal.print(json ? formatJson(asJson(cuda, all), 2) : asTable(cuda, all));
  return Promise.resolve(0);
}

function describe({ devices }: Cuda, device: CudaDevice): DescribedDevice {
  return {
    ordinal: device.ordinal,
    name: device.name,
    uuid: device.uuid,
    computeCapability: device.computeCapability.join("."),
    memory: device.memoryInfo(),
    peers: devices.filter((other) => other !== device && device.canAccessPeer(other)).map(({ ordinal }) => ordinal),
  };
}

function asJson({ driver, driverVersion, runtimeVersion }: Cuda, devices: readonly DescribedDevice[]): object {
  return { driver, driverVersion, runtimeVersion, devices };
}

function asTable({ driver, driverVersion }: Cuda, devices: readonly DescribedDevice[]): string {
  const kind = driver === "cuda" ? "CUDA" : "The software device, as a driver for CUDA";
  const rows = [
    ["device", "name", "UUID", "memory", "free", "compute", "peers"],
    ...devices.map(({ ordinal, name, uuid, memory, computeCapability, peers }) => [
      String(ordinal),
      printable(name),
      uuid,
      formatGibibytes(memory.total),
      formatGibibytes(memory.free),
      computeCapability,
      peers.length === 0 ? "none" : peers.join(", "),
    ]),
  ];
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const lines = rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column]!)).join("  ").trimEnd());
  return [`${kind} ${formatVersion(driverVersion)}`, "", ...lines].join("\n");
}

function formatGibibytes(byteLength: number): string {
  return `${(byteLength / 2 ** 30).toFixed(1)} GiB`;
}
