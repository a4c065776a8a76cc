import { defaultStream, type Driver } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import { launch } from "../kernels.ts";
import { readBytes } from "../launch.ts";
import type { Situation } from "../situation.ts";

const header = ".version 7.0\n.target sm_60\n.address_size 64\n";
const nothing = ".visible .entry nothing() { ret; }\n";

const variables = `${header}
.visible .global .align 4 .u32 counter = 5;
.visible .global .align 4 .u32 table[3] = {1, 2, 3};
.visible .global .align 8 .b8 room[100];
.visible .const .align 4 .u32 factor = 7;

.visible .entry count()
{
  .reg .b32 %value;
  .reg .b64 %at;
  mov.u64 %at, counter;
  ld.global.u32 %value, [%at];
  add.u32 %value, %value, 1;
  st.global.u32 [%at], %value;
  ret;
}
`;

/** Returns PTX of a module whose kernel `put` stores a constant. */
function moduleThatStores(value: number): string {
  return `${header}
.visible .entry put(.param .u64 to)
{
  .reg .b64 %to;
  ld.param.u64 %to, [to];
  st.global.u32 [%to], ${value};
  ret;
}
`;
}

/** Launches a kernel without parameters. */
function runKernel(driver: Driver, module: bigint, name: string): void {
  launch(driver, { device: 0, handle: driver.moduleGetFunction(module, name) });
}

/** Returns the bytes of a module's variable. */
function readGlobal(driver: Driver, module: bigint, name: string): number[] {
  const { address, byteLength } = driver.moduleGetGlobal(module, name);
  return readBytes(driver, 0, address, byteLength);
}

/** Returns pseudorandom bytes, the same each time. */
function garbage(byteLength: number): Uint8Array {
  let state = 1;
  return Uint8Array.from({ length: byteLength }, () => (state = state * 48271 % 0x7fffffff) & 0xff);
}

/** Rows about modules. */
export const situations: readonly Situation[] = [
  {
    name: "PTX with a syntax error",
    run: ({ driver }) => void driver.moduleLoadData(0, `${header}.visible .entry broken( { ret; }\n`),
  },
  {
    name: "PTX with an instruction that there is not",
    run: ({ driver }) => void driver.moduleLoadData(0, `${header}.visible .entry broken() { frobnicate.u32; ret; }\n`),
  },
  {
    name: "PTX that uses a register that it does not declare",
    run: ({ driver }) =>
      void driver.moduleLoadData(0, `${header}.visible .entry broken() { mov.u32 %nowhere, 1; ret; }\n`),
  },
  {
    name: "PTX that is empty",
    run: ({ driver }) => void driver.moduleLoadData(0, ""),
  },
  {
    name: "PTX that is only space",
    run: ({ driver }) => void driver.moduleLoadData(0, " \n\n"),
  },
  {
    name: "text that is no PTX",
    run: ({ driver }) => void driver.moduleLoadData(0, "This is not what a kernel looks like.\n"),
  },
  {
    name: "PTX without a version",
    run: ({ driver }) => void driver.moduleLoadData(0, `.target sm_60\n.address_size 64\n${nothing}`),
  },
  {
    name: "PTX without a target",
    run: ({ driver }) => void driver.moduleLoadData(0, `.version 7.0\n.address_size 64\n${nothing}`),
  },
  {
    name: "PTX of a version that is newer than the driver",
    run: ({ driver }) => void driver.moduleLoadData(0, header.replace("7.0", "99.0") + nothing),
  },
  {
    name: "PTX of a version that there never was",
    run: ({ driver }) => void driver.moduleLoadData(0, header.replace("7.0", "7.99") + nothing),
  },
  {
    name: "PTX for a target that there is not",
    run: ({ driver }) => void driver.moduleLoadData(0, header.replace("sm_60", "sm_999") + nothing),
  },
  {
    name: "PTX for a target that is newer than the device",
    run: ({ driver }) =>
      void driver.moduleLoadData(0, header.replace("7.0", "8.8").replace("sm_60", "sm_121") + nothing),
  },
  {
    name: "PTX for a target that its version does not know yet",
    run: ({ driver }) => void driver.moduleLoadData(0, header.replace("sm_60", "sm_90") + nothing),
  },
  {
    name: "PTX with addresses of 32 bits",
    run: ({ driver }) => void driver.moduleLoadData(0, header.replace("size 64", "size 32") + nothing),
  },
  {
    name: "PTX with two kernels of one name",
    run: ({ driver }) => void driver.moduleLoadData(0, header + nothing + nothing),
  },
  {
    name: "PTX with more static shared memory than a block has",
    run: ({ driver }) =>
      void driver.moduleLoadData(
        0,
        `${header}.visible .entry large(.param .u64 to) {
          .shared .align 4 .b8 room[49156];
          .reg .b32 %place, %value;
          .reg .b64 %to;
          ld.param.u64 %to, [to];
          mov.u32 %place, room;
          ld.shared.u32 %value, [%place];
          st.global.u32 [%to], %value;
          ret;
        }\n`,
      ),
  },
  {
    name: "PTX without kernels",
    run: ({ driver }) => void driver.moduleLoadData(0, header),
  },
  {
    name: "PTX as bytes, with and without a zero at its end",
    run: ({ driver }) =>
      attemptEach({
        with: () =>
          runKernel(driver, driver.moduleLoadData(0, new TextEncoder().encode(`${header}${nothing}\0`)), "nothing"),
        without: () =>
          runKernel(driver, driver.moduleLoadData(0, new TextEncoder().encode(header + nothing)), "nothing"),
        synchronize: () => driver.deviceSynchronize(0),
      }),
  },
  {
    name: "a binary image without order",
    run: ({ driver }) => void driver.moduleLoadData(0, garbage(4096)),
  },
  {
    name: "a binary image of zeros",
    run: ({ driver }) => void driver.moduleLoadData(0, new Uint8Array(4096)),
  },
  {
    name: "a module loaded on a device that there is not",
    run: ({ driver }) => void driver.moduleLoadData(99, header + nothing),
  },
  {
    name: "a kernel that the module does not have",
    run: ({ driver }) => void driver.moduleGetFunction(driver.moduleLoadData(0, header + nothing), "other"),
  },
  {
    name: "a kernel named by nothing",
    run: ({ driver }) => void driver.moduleGetFunction(driver.moduleLoadData(0, header + nothing), ""),
  },
  {
    name: "a kernel named by the begin of its name, and in capitals",
    run({ driver }) {
      const module = driver.moduleLoadData(0, header + nothing);
      return attemptEach({
        begin: () => driver.moduleGetFunction(module, "noth"),
        capitals: () => driver.moduleGetFunction(module, "NOTHING"),
      });
    },
  },
  {
    name: "a kernel named by a variable's name",
    run: ({ driver }) => void driver.moduleGetFunction(driver.moduleLoadData(0, variables), "counter"),
  },
  {
    name: "a kernel that is not visible",
    run: ({ driver }) =>
      void driver.moduleGetFunction(driver.moduleLoadData(0, `${header}.entry hidden() { ret; }\n`), "hidden"),
  },
  {
    name: "a kernel of a module that is null",
    run({ driver }) {
      driver.deviceSynchronize(0);
      driver.moduleGetFunction(0n, "nothing");
    },
  },
  {
    name: "a module that is null unloaded",
    run: ({ driver }) => driver.moduleUnload(0, 0n),
  },
  {
    name: "a module unloaded, and another loaded from the same text",
    run({ driver }) {
      driver.moduleUnload(0, driver.moduleLoadData(0, header + nothing));
      runKernel(driver, driver.moduleLoadData(0, header + nothing), "nothing");
      driver.deviceSynchronize(0);
    },
  },
  {
    name: "a kernel asked for twice: whether its handle is the same",
    run({ driver }) {
      const module = driver.moduleLoadData(0, header + nothing);
      return driver.moduleGetFunction(module, "nothing") === driver.moduleGetFunction(module, "nothing");
    },
  },
  {
    name: "two modules of the same text: whether their handles, and their kernels', are the same",
    run({ driver }) {
      const modules = [driver.moduleLoadData(0, header + nothing), driver.moduleLoadData(0, header + nothing)];
      const kernels = modules.map((module) => driver.moduleGetFunction(module, "nothing"));
      return { modules: modules[0] === modules[1], kernels: kernels[0] === kernels[1] };
    },
  },
  {
    name: "two modules with kernels of one name: each runs its own, also once the other is unloaded",
    run({ driver }) {
      const address = driver.malloc(0, 4);
      const [first, second] = [1, 2].map((value) => driver.moduleLoadData(0, moduleThatStores(value))) as [
        bigint,
        bigint,
      ];
      const put = (module: bigint) => {
        launch(driver, { device: 0, handle: driver.moduleGetFunction(module, "put") }, { parameters: [address] });
        return readBytes(driver, 0, address, 1);
      };
      const both = [put(first), put(second), put(first)];
      driver.moduleUnload(0, second);
      return [...both, put(first)];
    },
  },
  {
    name: "a variable that the module does not have",
    run: ({ driver }) => void driver.moduleGetGlobal(driver.moduleLoadData(0, variables), "other"),
  },
  {
    name: "a variable named by nothing",
    run: ({ driver }) => void driver.moduleGetGlobal(driver.moduleLoadData(0, variables), ""),
  },
  {
    name: "a variable named by a kernel's name",
    run: ({ driver }) => void driver.moduleGetGlobal(driver.moduleLoadData(0, variables), "count"),
  },
  {
    name: "a variable of a module that has none",
    run: ({ driver }) => void driver.moduleGetGlobal(driver.moduleLoadData(0, header + nothing), "counter"),
  },
  {
    name: "variables' sizes",
    run({ driver }) {
      const module = driver.moduleLoadData(0, variables);
      const sizeOf = (name: string) => () => driver.moduleGetGlobal(module, name).byteLength;
      return attemptEach({
        counter: sizeOf("counter"),
        table: sizeOf("table"),
        room: sizeOf("room"),
        factor: sizeOf("factor"),
      });
    },
  },
  {
    name: "variables' values at first: given, given as a list, not given, and constant",
    run({ driver }) {
      const module = driver.moduleLoadData(0, variables);
      return {
        counter: readGlobal(driver, module, "counter"),
        table: readGlobal(driver, module, "table"),
        room: readGlobal(driver, module, "room").every((byte) => byte === 0),
        factor: readGlobal(driver, module, "factor"),
      };
    },
  },
  {
    name: "a variable that a kernel and a copy change: each sees what the other wrote",
    run({ driver }) {
      const module = driver.moduleLoadData(0, variables);
      runKernel(driver, module, "count");
      const counted = readGlobal(driver, module, "counter");
      driver.memcpyHtoDAsync(
        0,
        driver.moduleGetGlobal(module, "counter").address,
        Uint8Array.of(40, 0, 0, 0),
        defaultStream,
      );
      runKernel(driver, module, "count");
      return [counted, readGlobal(driver, module, "counter")];
    },
  },
  {
    name: "two modules of the same text: whether they share their variables",
    run({ driver }) {
      const [first, second] = [driver.moduleLoadData(0, variables), driver.moduleLoadData(0, variables)];
      runKernel(driver, first, "count");
      return [readGlobal(driver, first, "counter"), readGlobal(driver, second, "counter")];
    },
  },
  {
    name: "a variable's address: whether it is an allocation of the variable's size",
    run({ driver }) {
      const { address, byteLength } = driver.moduleGetGlobal(driver.moduleLoadData(0, variables), "room");
      const range = driver.memGetAddressRange(0, address);
      return { base: range.base === address, byteLength: range.byteLength === byteLength };
    },
  },
  {
    name: "a variable freed as memory is",
    run({ driver }) {
      const { address } = driver.moduleGetGlobal(driver.moduleLoadData(0, variables), "room");
      return attemptEach({
        free: () => driver.free(0, address),
        freeAsync: () => driver.freeAsync(0, address, defaultStream),
      });
    },
  },
];
