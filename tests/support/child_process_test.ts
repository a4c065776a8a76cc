import { assertEquals } from "@std/assert";
import { startCommand } from "./child_process.ts";
import { test } from "./test.ts";

test("what a process printed is read after its end", async () => {
  await using child = startCommand(["/bin/sh", "-c", "echo first; echo second"]);
  assertEquals([await child.ended, await child.errors()], [0, ""]);
  assertEquals([await child.nextLine(), await child.nextLine(), await child.nextLine()], [
    "first",
    "second",
    undefined,
  ]);
});
