import { assertEquals, assertMatch } from "@std/assert";
import process from "node:process";
import { poolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";

/** Runs a body with two software devices. */
async function withTwoDevices(body: () => Promise<void>): Promise<void> {
  const before = process.env.POOLPASS_SOFTWARE_DEVICES;
  process.env.POOLPASS_SOFTWARE_DEVICES = "2";
  try {
    await body();
  } finally {
    if (before === undefined) delete process.env.POOLPASS_SOFTWARE_DEVICES;
    else process.env.POOLPASS_SOFTWARE_DEVICES = before;
  }
}

test("devices are listed, one on each line, with their UUIDs, memory and peers", () =>
  withTwoDevices(async () => {
    const { code, output, errors } = await poolpass("devices", "--driver", "software");
    assertEquals([code, errors], [0, ""]);
    const [title, empty, heads, ...rows] = output.trimEnd().split("\n");
    assertMatch(title!, /^The software device, as a driver for CUDA \d+\.\d+$/);
    assertEquals(empty, "");
    assertEquals(heads!.split(/ {2,}/), ["device", "name", "UUID", "memory", "free", "compute", "peers"]);
    assertEquals(rows.length, 2);
    for (const [index, row] of rows.entries()) {
      const [ordinal, name, uuid, memory, free, compute, peers] = row.split(/ {2,}/);
      assertEquals([ordinal, name, peers], [String(index), "poolpass software device", String(1 - index)]);
      assertMatch(uuid!, /^GPU(-[0-9a-f]+){5}$/);
      for (const size of [memory, free]) assertMatch(size!, /^\d+\.\d GiB$/);
      assertMatch(compute!, /^\d+\.\d$/);
    }
  }));

test("JSON has the same in bytes", () =>
  withTwoDevices(async () => {
    const { code, output } = await poolpass("devices", "--json", "--driver=software");
    assertEquals(code, 0);
    const { driver, driverVersion, devices } = JSON.parse(output);
    assertEquals([driver, Number.isInteger(driverVersion), devices.length], ["software", true, 2]);
    for (const [ordinal, device] of devices.entries()) {
      const { name, uuid, computeCapability, memory: { free, total }, peers } = device;
      assertEquals([device.ordinal, name, peers], [ordinal, "poolpass software device", [1 - ordinal]]);
      assertMatch(uuid, /^GPU(-[0-9a-f]+){5}$/);
      assertMatch(computeCapability, /^\d+\.\d$/);
      assertEquals([Number.isInteger(free), Number.isInteger(total), 0 < free, free <= total], Array(4).fill(true));
    }
  }));

test("a wrong command line is refused with what is wrong, and exit code 2", async () => {
  const help = "poolpass devices --help lists the options";
  for (
    const [args, errors] of [
      [["--driver", "opencl"], `There is no driver "opencl": it is cuda or software; ${help}`],
      [["0"], `There is nothing to do with "0"; ${help}`],
      [["--jsn"], `There is no option --jsn; did you mean "json"?; ${help}`],
    ] as const
  ) assertEquals(await poolpass("devices", ...args), { code: 2, output: "", errors: `${errors}\n` });
});
