import type { Driver } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import { launch } from "../kernels.ts";
import { readBytes } from "../launch.ts";
import type { Answer, Situation } from "../situation.ts";

const header = ".version 7.0\n.target sm_60\n.address_size 64\n";

/** Stores what the function `value` returns, plus a variable of its own. */
const caller = `${header}
.extern .func (.param .b32 result) value();
.extern .global .align 4 .u32 shared_by_both;
.global .align 4 .u32 own = 100;

.visible .entry store(.param .u64 to)
{
  .reg .b32 %value, %own, %both;
  .reg .b64 %to;
  .param .b32 result;
  ld.param.u64 %to, [to];
  call (result), value;
  ld.param.b32 %value, [result];
  ld.global.u32 %own, [own];
  ld.global.u32 %both, [shared_by_both];
  add.u32 %value, %value, %own;
  add.u32 %value, %value, %both;
  st.global.u32 [%to], %value;
  ret;
}
`;

/** Defines the function, with a variable of its own that has the same name as the other's. */
const callee = `${header}
.visible .global .align 4 .u32 shared_by_both = 20;
.global .align 4 .u32 own = 3;

.visible .func (.param .b32 result) value()
{
  .reg .b32 %own;
  ld.global.u32 %own, [own];
  st.param.b32 [result], %own;
  ret;
}
`;

const callOfF = `${header}.extern .func f(); .visible .entry k() { call f; ret; }\n`;
const functionF = `${header}.visible .func f() { ret; }\n`;
const variableUse = (size: number) =>
  `${header}.extern .global .align 4 .b8 v[${size}]; .visible .entry k() { .reg .u64 %a; mov.u64 %a, v; ` +
  "st.global.u32 [%a], 1; ret; }\n";
const variable = `${header}.visible .global .align 4 .b8 v[16];\n`;

function link(driver: Driver, ...images: readonly (string | Uint8Array)[]): bigint {
  return driver.linkModules(0, images.map((image, index) => ({ name: `image ${index}`, image })));
}

function stored(driver: Driver, ...images: readonly string[]): Answer {
  const module = link(driver, ...images);
  const address = driver.malloc(0, 4);
  launch(driver, { device: 0, handle: driver.moduleGetFunction(module, "store") }, { parameters: [address] });
  return readBytes(driver, 0, address, 1)[0]!;
}

/** Rows about linking, and about what the driver knows of a module's kernels. */
export const situations: readonly Situation[] = [
  {
    name: "two images linked, in both orders: what a kernel of one gets of the other",
    run: ({ driver }) => [stored(driver, caller, callee), stored(driver, callee, caller)],
  },
  {
    name: "a linked module's variable, which one image declares and the other defines",
    run({ driver }) {
      const module = link(driver, caller, callee);
      const { address } = driver.moduleGetGlobal(module, "shared_by_both");
      const both = readBytes(driver, 0, address, 1);
      driver.moduleUnload(0, module);
      return both;
    },
  },
  {
    name: "images that cannot be linked",
    run: ({ driver }) =>
      attemptEach({
        undefinedFunction: () => void link(driver, callOfF),
        undefinedVariable: () => void link(driver, variableUse(16)),
        definedTwice: () => void link(driver, callOfF, functionF, functionF),
        otherSize: () => void link(driver, variableUse(8), variable),
        notPtx: () => void link(driver, functionF, `${header}.visible .entry k() { frobnicate; }\n`),
        newerPtx: () => void link(driver, functionF.replace("7.0", "99.0")),
      }),
  },
  {
    name: "a weak function and another definition, and a function that is only declared",
    run({ driver }) {
      const weak = functionF.replace(".visible", ".weak");
      link(driver, callOfF, weak, functionF);
      link(driver, `${header}.extern .func f(); .visible .entry k() { ret; }\n`, variable);
      return { weak: "ok", onlyDeclared: "ok" };
    },
  },
  {
    name: "the places of a kernel's parameters, and the names of a module's kernels",
    run({ driver }) {
      const module = driver.moduleLoadData(
        0,
        `${header}.visible .entry none() { ret; }
.visible .entry several(.param .u64 a, .param .u8 b, .param .align 4 .b8 c[12], .param .f16 d) { ret; }\n`,
      );
      const placesOf = (name: string) =>
        driver.funcGetParamInfo(driver.moduleGetFunction(module, name))!.map((place) => Object.values(place));
      return {
        places: placesOf("several"),
        none: placesOf("none"),
        names: driver.moduleGetFunctionNames(module)!.sort(),
      };
    },
  },
];
