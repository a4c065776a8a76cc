/** Drivers above other drivers, and the table of what their calls do. */
import { assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { type CallEffects, callEffects, type CallName, effectsOf, takesSlot } from "../src/call_effects.ts";
import { defaultStream, type Driver } from "../src/driver.ts";
import { intercept, refuse } from "../src/driver_layers.ts";
import { Observer } from "../src/sanitizer/observer/observer.ts";
import { Reports } from "../src/sanitizer/reporting/reports.ts";
import { SoftwareDriver } from "../src/software/software_driver.ts";
import { importsOfLibrary } from "./support/module_graph.ts";

/** The parameters of each method of `Driver`, by their names. */
function parametersOfCalls(): Map<string, string[]> {
  const source = readFileSync(new URL("../src/driver.ts", import.meta.url), "utf8");
  const [, body] = /^export interface Driver \{\n(.*?)^\}/ms.exec(source)!;
  const methods = body!.matchAll(/^ {2}(\w+)\((.*?)\):/gms);
  return new Map([...methods].map(([, name, parameters]) => {
    return [name!, [...parameters!.matchAll(/(\w+)\??:/g)].map(([, parameter]) => parameter!)];
  }));
}

test("the table of effects names the stream of each call that has one", () => {
  const parameters = parametersOfCalls();
  assertEquals([...parameters.keys()].sort(), Object.keys(callEffects).sort());
  const wrong: string[] = [];
  for (const [name, names] of parameters) {
    const { stream, blocksOn, mayBlockOn } = effectsOf(name);
    const place = names.indexOf("stream");
    const isRight = typeof stream === "number" || place >= 0
      ? stream === place && names[0] === "device"
      : stream === undefined || names[0] === { launch: "launch", all: "device" }[stream];
    const isOfDevice = blocksOn === "device" || mayBlockOn === "device";
    if (!isRight || isOfDevice && names[0] !== "device" || blocksOn === "event" && names[0] !== "event") {
      wrong.push(`${name}(${names.join(", ")}): ${JSON.stringify(effectsOf(name))}`);
    }
  }
  assertEquals(wrong, []);
});

test("the sanitizer observes every call that orders work, that waits for it, or after which other memory is accessible", () => {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  const { observedCalls } = new Observer(driver, new Reports(new Set(), () => {}, undefined));
  driver.close();
  const unobserved = Object.entries<CallEffects>(callEffects)
    .filter(([, { enqueues, blocksOn, memory }]) =>
      enqueues !== undefined || blocksOn !== undefined || memory !== undefined
    )
    .map(([name]) => name)
    .filter((name) => !observedCalls.has(name));
  assertEquals(unobserved, []);
});

test("nothing above the seam asks for the driver's kind, except for Cuda.driver", () => {
  const modules = new Set(importsOfLibrary().map(({ from }) => from));
  const asking = [...modules].filter((module) => /^src\/(?!software\/|driver\.ts)/.test(module)).filter((module) => {
    return /\b(driver|guarded)\)?\.kind\b/i.test(readFileSync(new URL(`../${module}`, import.meta.url), "utf8"));
  });
  assertEquals(asking, ["src/objects/cuda.ts"]);
});

test("names that are not calls have no effects", () => {
  for (const name of ["kind", "hasContextEvents", "toString", "constructor", Symbol.iterator]) {
    assertEquals(effectsOf(name), {});
  }
  assertEquals(takesSlot(effectsOf("launchKernel")), true);
  assertEquals(takesSlot(effectsOf("eventRecord")), false);
});

test("a layer makes its own calls, and leaves the others to the driver below, which may be a layer itself", () => {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  const made: string[] = [];
  const layer = intercept(driver, { getDeviceCount: () => 7 });
  const upper = intercept(layer, { driverGetVersion: () => layer.driverGetVersion() + 1 }, (name, method) => {
    return (...parameters) => {
      made.push(String(name));
      return Reflect.apply(method, layer, parameters);
    };
  });
  // Each call is made twice: the second time, it is a property of the layer.
  for (let time = 0; time < 2; time++) {
    assertEquals(upper.getDeviceCount(), 7);
    assertEquals(upper.driverGetVersion(), driver.driverGetVersion() + 1);
    assertEquals(upper.streamQuery(0, defaultStream), true);
  }
  assertEquals(made, [1, 2].flatMap((): CallName[] => ["getDeviceCount", "driverGetVersion", "streamQuery"]));
  assertEquals([upper.kind, upper.dropsWork], ["software", true]);
  assertEquals(upper.streamQuery, upper.streamQuery);
  upper.close();
});

test("a driver that refuses throws for whatever is asked of it", () => {
  const refusing: Driver = refuse(() => new ReferenceError("it has ended"));
  assertThrows(() => refusing.kind, ReferenceError, "it has ended");
  assertThrows(() => refusing.getDeviceCount(), ReferenceError, "it has ended");
});
