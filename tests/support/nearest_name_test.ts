import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { didYouMean, nearestNames, suggestName } from "../../src/support/validation.ts";

const launch = ["grid", "block", "stream", "sharedMemoryBytes"];

void test("the nearest name differs in case, in punctuation, by few letters, or has more of them", () => {
  const cases: [name: string, names: readonly string[], nearest: readonly string[]][] = [
    ["Stream", launch, ["stream"]],
    ["shared_memory_bytes", launch, ["sharedMemoryBytes"]],
    ["posixfd", ["none", "posix-fd", "fabric"], ["posix-fd"]],
    ["strem", launch, ["stream"]],
    ["sttream", launch, ["stream"]],
    ["strean", launch, ["stream"]],
    ["straem", launch, ["stream"]],
    ["sharedMemBytes", launch, ["sharedMemoryBytes"]],
    ["shared", launch, ["sharedMemoryBytes"]],
    ["saxpy", ["_Z5saxpyjfPKfPf", "daxpi"], ["_Z5saxpyjfPKfPf"]],
    ["half", ["first half", "second half"], ["first half", "second half"]],
    ["slotSize", ["slots", "slotByteLength"], ["slotByteLength"]],
    ["warps", launch, []],
    ["x", ["y"], []],
    ["", launch, []],
    ["---", launch, []],
    ["s".repeat(1e6), ["t".repeat(1e6)], []],
    ["stream", [], []],
  ];
  for (const [name, names, nearest] of cases) assertEquals(nearestNames(name, names), nearest, name);
});

void test("a suggestion is a question, or the list of the names if none is near", () => {
  assertEquals(suggestName("strem", launch, "the options are"), 'did you mean "stream"?');
  const halves = ["first half", "second half", "middle half"];
  assertEquals(didYouMean("half", halves), '; did you mean "first half", "second half" or "middle half"?');
  assertEquals(suggestName("warps", launch, "the options are"), `the options are ${launch.join(", ")}`);
  const many = Array.from({ length: 20 }, (_, index) => `kernel${index}`);
  assertEquals(suggestName("x", many, "its kernels are"), `its kernels are ${many.slice(0, 12).join(", ")} and 8 more`);
  assertEquals([didYouMean("warps", launch), didYouMean(5, launch)], ["", ""]);
});
