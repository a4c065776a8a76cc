import { assert, assertEquals, assertThrows } from "@std/assert";
import { ptx } from "../../kernels/saxpy.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { loadModule } from "../../src/objects/modules/load_module.ts";
import { Session } from "../../src/session.ts";
import { driversUnderTest, testOnEachDriver } from "../support/drivers.ts";
import { test } from "../support/test.ts";

/** Two kernels and a variable, as C++ mangles their names. */
const mangled = `
.version 7.0
.target sm_60
.address_size 64
.visible .global .align 4 .u32 _Z5tableIfE = 7;
.visible .entry _Z5scaleIfEvPT_(.param .u64 _Z5scaleIfEvPT__param_0) { ret; }
.visible .entry _Z5scaleIiEvPT_(.param .u64 _Z5scaleIiEvPT__param_0) { ret; }
`;
const loweredNames = new Map([
  ["scale<float>", "_Z5scaleIfEvPT_"],
  ["::scale<float>", "_Z5scaleIfEvPT_"],
  ["&table<float>", "_Z5tableIfE"],
]);

testOnEachDriver("a module is compiled as its options ask", async (cuda, { name }) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using x = pool.allocateArray(Float32Array, 8);
  using y = pool.allocateArray(Float32Array, 8);
  // No other run has these bytes: the driver's cache has no log.
  const image = `${ptx}\n// ${crypto.randomUUID()}\n`;
  for (
    const options of [
      { maxRegisters: 16, optimizationLevel: 0, lineInfo: true, verbose: true },
      { maxRegisters: 255, optimizationLevel: 4, debug: false, verbose: false },
      { debug: true },
      { maxRegisters: undefined },
    ]
  ) {
    x.fill(2);
    y.fill(1);
    using module = gpu.loadModule(image, options);
    module.kernel("saxpy").launch({ grid: 1, block: 32 }, 8, 3, x, y);
    assertEquals(await y.toTypedArray(), new Float32Array(8).fill(7));
    if (name === "software") assertEquals(module.log, "");
    else if (options.verbose) assert(/saxpy[^]*registers/.test(module.log), `the log is ${module.log}`);
  }
});

testOnEachDriver("options of a module out of their range are refused", (cuda) => {
  const gpu = cuda.device(0);
  for (const maxRegisters of [0, -1, 256, 1.5, NaN, Infinity]) {
    const message = `Cannot use ${maxRegisters} as a module's maxRegisters: it must be a whole number from 1 to 255`;
    assertThrows(() => gpu.loadModule(ptx, { maxRegisters }), RangeError, message);
  }
  for (const optimizationLevel of [-1, 5, 0.5]) {
    assertThrows(() => gpu.loadModule(ptx, { optimizationLevel }), RangeError, "a whole number from 0 to 4");
  }
  assertThrows(() => gpu.loadModule(ptx, { maxrregcount: 32 } as object), TypeError, 'did you mean "maxRegisters"?');
});

for (const { name, skip, open } of driversUnderTest) {
  test(`a module finds kernels and variables by their name expressions [${name}]`, { skip }, () => {
    const session = new Session(open());
    using cuda = new Cuda(session);
    using module = loadModule(session, cuda.device(0), mangled, { loweredNames, log: "kernel.cu(1): warning\n" });
    assert(module.log.startsWith("kernel.cu(1): warning"), module.log);
    assertEquals(module.kernelNames, ["scale<float>", "_Z5scaleIiEvPT_"]);
    const scale = module.kernel("scale<float>");
    assertEquals(scale.name, "scale<float>");
    assertEquals(scale.parameters, ["u64"]);
    assertEquals(module.kernel("scale<float>"), scale);
    scale.launch({ grid: 1, block: 1 }, 0n);
    assertEquals(module.kernel("_Z5scaleIfEvPT_").name, "_Z5scaleIfEvPT_");
    assertEquals(module.kernel("::scale<float>", { parameters: ["pointer"] }).name, "::scale<float>");
    assertEquals(module.getGlobal("&table<float>").byteLength, 4);
    assertEquals(module.getGlobal("_Z5tableIfE").readSync(Uint32Array)[0], 7);
    for (
      const [find, message] of [
        [
          () => module.kernel("scale<double>"),
          'its kernels are scale<float>, _Z5scaleIiEvPT_; compile others as "nameExpressions"',
        ],
        [() => module.kernel("&table<float>"), 'it is a variable: use getGlobal("&table<float>")'],
        [() => module.getGlobal("scale<float>"), 'it is a kernel: use kernel("scale<float>")'],
        [() => module.getGlobal("&table<flaot>"), 'did you mean "&table<float>"?'],
        [() => scale.launch({ grid: 1, block: 1 }), "Cannot launch scale<float> with 0 arguments"],
      ] as const
    ) assertThrows(find, Error, message);
  });
}
