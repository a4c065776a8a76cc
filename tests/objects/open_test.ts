import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import process from "node:process";
import { open } from "../../src/open.ts";
import { checkRuntime } from "../../src/support/version.ts";
import { startScript } from "../support/child_process.ts";
import { driverNamed } from "../support/drivers.ts";
import { test } from "../support/test.ts";

const hasGpu = driverNamed("cuda").skip === false;

interface Described {
  driver?: string;
  uuids?: string[];
  arePeers?: boolean;
  error?: string;
}

/** The devices in a process with these environment variables. */
async function describeDevices(env: Record<string, string>): Promise<Described> {
  await using child = startScript("children/describe_devices.ts", [], { env });
  return JSON.parse(await child.nextLine() ?? await child.errors());
}

test("driver auto uses a GPU if there is one, and otherwise the software device", () => {
  using cuda = open();
  assertEquals(cuda.driver, hasGpu ? "cuda" : "software");
});

/** This runtime's name and version. */
function runtimeName(): string {
  const { versions } = process as { versions: Readonly<Record<string, string | undefined>> };
  return versions.deno ? `Deno ${versions.deno}` : versions.bun ? `Bun ${versions.bun}` : `Node ${versions.node}`;
}

test("a runtime that is too old is refused by name, for any driver", () => {
  const property = Object.getOwnPropertyDescriptor(Uint8Array.prototype, "toHex")!;
  delete (Uint8Array.prototype as { toHex?: unknown }).toHex;
  try {
    assertThrows(() => open({ driver: "software" }), Error, `Cannot run here: ${runtimeName()} is too old`);
  } finally {
    Object.defineProperty(Uint8Array.prototype, "toHex", property);
  }
});

test("Node is too old before 26.10", () => {
  const check = (node: string) => checkRuntime({ Uint8Array, DisposableStack, process: { versions: { node } } });
  for (const version of ["18.20.8", "24.11.0", "25.9.0", "26.3.0", "26.9.1"]) {
    const message = `Cannot run here: Node ${version} is too old; use Deno 2.9, Bun 1.4, Node 26.10 or newer, as in ` +
      "npx -y -p node@26.10 node FILE";
    const error = assertThrows(() => check(version), Error);
    assertEquals([error.message, error.stack], [message, `Error: ${message}`]);
  }
  for (const version of ["26.10.0", "26.11.0-nightly", "27.0.0"]) check(version);
});

test("a requested driver is not replaced by another", { skip: hasGpu && "there is a GPU" }, () => {
  const error = assertThrows(() => open({ driver: "cuda" }), Error);
  assertMatch(error.message, /^Cannot use CUDA: /);
  assertEquals(error.name, "CudaUnavailableError");
});

test("environment variables select the driver and the devices", async () => {
  const software = { POOLPASS_DRIVER: "software", POOLPASS_SOFTWARE_DEVICES: "3" };
  const { driver, uuids = [], arePeers } = await describeDevices(software);
  assertEquals([driver, uuids.length, arePeers], ["software", 3, true]);
  const alone = await describeDevices({ ...software, POOLPASS_SOFTWARE_PEERS: "none" });
  assertEquals(alone.arePeers, false);
  const some = await describeDevices({ ...software, CUDA_VISIBLE_DEVICES: `2,${uuids[0]}` });
  assertEquals(some.uuids, [uuids[2]!, uuids[0]!]);
  const none = await describeDevices({ ...software, CUDA_VISIBLE_DEVICES: "" });
  assertMatch(none.error ?? "", /CUDA_VISIBLE_DEVICES/);
});

test("invalid environment variables and options are refused with their value", async () => {
  const wrongDriver = await describeDevices({ POOLPASS_DRIVER: "sofware" });
  assertMatch(wrongDriver.error ?? "", /POOLPASS_DRIVER="sofware".* did you mean "software"\?$/);
  const wrongDebug = await describeDevices({ POOLPASS_DRIVER: "software", POOLPASS_DEBUG: "true" });
  assertMatch(wrongDebug.error ?? "", /POOLPASS_DEBUG="true".* 0, 1/);
  const wrongCount = await describeDevices({ POOLPASS_DRIVER: "software", POOLPASS_SOFTWARE_DEVICES: "many" });
  assertMatch(wrongCount.error ?? "", /POOLPASS_SOFTWARE_DEVICES="many"/);
  assertThrows(() => open({ driver: "software", softwareDevices: 0 }), RangeError, "0 software devices");
  assertThrows(() => open({ driver: "metal" as "cuda" }), TypeError, '"metal"');
  assertThrows(() => open({ driver: "cuda", cudart: 13 as never }), TypeError, "Cannot use 13 as libcudart");
});
