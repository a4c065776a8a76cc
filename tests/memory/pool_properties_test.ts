/** How pools are shared, what they are for, and how large they may be. */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { inspect } from "node:util";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import type { PoolOptions } from "../../mod.ts";
import { type Driver, memPoolPropertyAttribute } from "../../src/driver.ts";
import { intercept } from "../../src/driver_layers.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { driverNamed, testOnEachDriver } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";
import { test } from "../support/test.ts";

const skip = shimRefusal() ?? false;

testOnEachDriver("a pool says how it is shared, and how large it may be", (cuda) => {
  const gpu = cuda.device(0);
  using none = gpu.createPool();
  assertEquals([none.handleType, none.handleTypes, none.maxSize], ["none", [], undefined]);
  using limited = gpu.createPool({ maxSize: 2 ** 25 });
  assertEquals(limited.maxSize, 2 ** 25);
  assertEquals([gpu.defaultPool.handleTypes, gpu.defaultPool.maxSize], [[], undefined]);
  using managed = cuda.createManagedPool({ maxSize: 2 ** 20 });
  assertEquals([managed.handleTypes, managed.maxSize], [[], 2 ** 20]);
  assertThrows(
    () => Object.assign(limited, { maxSize: 1 }),
    TypeError,
    "a pool keeps its maximum; give it to createPool",
  );
  assertThrows(
    () => Object.assign(limited, { handleTypes: [] }),
    TypeError,
    "a pool keeps them; give them to createPool",
  );
});

testOnEachDriver("options that contradict each other, or that are not valid, are refused", (cuda) => {
  const gpu = cuda.device(0);
  // deno-lint-ignore no-explicit-any
  const create = (options: any) => () => gpu.createPool(options as PoolOptions);
  const both = { handleType: "posix-fd", handleTypes: ["posix-fd"] };
  assertThrows(create(both), TypeError, "Cannot create a pool with handleType and handleTypes: give one of them");
  assertThrows(create({ handleTypes: "fabric" }), TypeError, 'give an array, such as ["fabric"]');
  assertThrows(create({ handleTypes: 9 }), TypeError, "Cannot use 9 as handleTypes: give an array");
  assertThrows(create({ handleTypes: ["posix"] }), TypeError, 'did you mean "posix-fd"?');
  assertThrows(create({ handleTypes: ["none"] }), TypeError, 'with "none" among its handleTypes: each is');
  assertThrows(create({ hardwareDecompression: 2 }), TypeError, "Cannot use 2 as hardwareDecompression");
  using none = gpu.createPool({ handleTypes: [] });
  assertEquals(none.handleType, "none");
});

test("a pool of several handle types is exported as either, where there is a fabric", { skip }, async () => {
  await inFolder((fabric) => {
    using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false, fabric })));
    const gpu = cuda.device(0);
    using pool = gpu.createPool({ handleTypes: ["fabric", "posix-fd"] });
    assertEquals([pool.handleType, pool.handleTypes], ["posix-fd", ["posix-fd", "fabric"]]);
    assertStringIncludes(inspect(pool), "posix-fd, fabric");
    using buffer = pool.allocateArray(Uint32Array.of(1, 2, 3));
    for (const type of [undefined, "posix-fd", "fabric"] as const) {
      using handle = pool.exportHandle(type);
      using imported = gpu.importPool(handle);
      using mapped = imported.importPointer(buffer.exportPointer(), buffer.byteLength);
      assertEquals(mapped.readSync(Uint32Array), Uint32Array.of(1, 2, 3));
    }
    assertThrows(
      () => pool.exportHandle("none" as never),
      TypeError,
      'as "none": it was created with "posix-fd" and "f',
    );
    using one = gpu.createPool({ handleTypes: ["posix-fd"] });
    assertThrows(() => one.exportHandle("fabric"), TypeError, 'as "fabric": it was created with "posix-fd"; give one');
    return Promise.resolve();
  });
});

test("without a fabric, a pool for it is created, and says why it cannot be exported", { skip }, () => {
  using cuda = new Cuda(new Session(driverNamed("software").open()));
  using pool = cuda.device(0).createPool({ handleTypes: ["posix-fd", "fabric"] });
  using buffer = pool.allocate(4);
  assertEquals(buffer.byteLength, 4);
  assertThrows(() => pool.exportHandle(), Error, "cudaErrorNotPermitted");
});

test("since CUDA 13.2, the driver says what a pool is", () => {
  const driver = new SoftwareDriver({ devices: 1, peers: false });
  const created: Parameters<Driver["memPoolCreate"]>[0][] = [];
  const newer = intercept(driver, {
    driverGetVersion: () => 13020,
    memPoolCreate: (props) => {
      created.push(props);
      return driver.memPoolCreate(props);
    },
    memPoolGetAttribute: (pool, attribute) => {
      if (attribute === memPoolPropertyAttribute.maxSize) return 3n * 2n ** 25n;
      if (attribute === memPoolPropertyAttribute.handleTypes) return 8n;
      return driver.memPoolGetAttribute(pool, attribute);
    },
  });
  using cuda = new Cuda(new Session(newer));
  using pool = cuda.device(0).createPool({ maxSize: 1000, hardwareDecompression: true });
  assertEquals([pool.maxSize, pool.handleTypes, created[0]!.usage], [3 * 2 ** 25, ["fabric"], 2]);
  assertEquals(cuda.device(0).defaultPool.maxSize, 3 * 2 ** 25);
});
