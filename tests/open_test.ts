import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import process from "node:process";
import { test } from "node:test";
import { open } from "../src/open.ts";
import { driversUnderTest } from "./drivers.ts";

const hasGpu = driversUnderTest.find(({ name }) => name === "cuda")!.skip === false;

/** Sets variables of the environment while `body` runs. */
function withEnvironment(variables: Record<string, string>, body: () => void): void {
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, variables);
  try {
    body();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}

test("auto takes a GPU where there is one, and the software device otherwise", () => {
  using cuda = open();
  assertEquals(cuda.driver, hasGpu ? "cuda" : "software");
});

test("a driver that was asked for is not replaced by another", { skip: hasGpu && "there is a GPU" }, () => {
  const error = assertThrows(() => open({ driver: "cuda" }), Error);
  assertMatch(error.message, /^Cannot use CUDA: /);
});

test("the environment says what the options do not", () => {
  withEnvironment(
    { POOLPASS_DRIVER: "software", POOLPASS_SOFTWARE_DEVICES: "3", POOLPASS_SOFTWARE_PEERS: "none" },
    () => {
      using cuda = open();
      assertEquals(cuda.driver, "software");
      assertEquals(cuda.devices.length, 3);
      assertEquals(cuda.device(0).canAccessPeer(cuda.device(1)), false);
      using two = open({ softwareDevices: 2 });
      assertEquals(two.devices.length, 2);
    },
  );
  withEnvironment({ POOLPASS_SOFTWARE_DEVICES: "3", CUDA_VISIBLE_DEVICES: "2,0" }, () => {
    using all = open({ driver: "software" });
    withEnvironment({ CUDA_VISIBLE_DEVICES: "0,1,2" }, () => {
      using ordered = open({ driver: "software" });
      assertEquals(all.devices.map(({ uuid }) => uuid), [ordered.device(2).uuid, ordered.device(0).uuid]);
    });
  });
});

test("what the environment and the options cannot mean is refused, with the value", () => {
  withEnvironment({ POOLPASS_DRIVER: "gpu" }, () => assertThrows(() => open(), RangeError, 'POOLPASS_DRIVER="gpu"'));
  withEnvironment(
    { POOLPASS_SOFTWARE_DEVICES: "many" },
    () => assertThrows(() => open({ driver: "software" }), RangeError, 'POOLPASS_SOFTWARE_DEVICES="many"'),
  );
  assertThrows(() => open({ driver: "software", softwareDevices: 0 }), RangeError, "0 software devices");
  assertThrows(() => open({ driver: "metal" as "cuda" }), TypeError, '"metal"');
});
