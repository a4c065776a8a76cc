import { assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { test } from "../support/test.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

test("the program of worker threads is what its sources build", { long: true }, () => {
  const { status, stderr } = spawnSync(process.execPath, ["task", "workers", "--check"], {
    cwd: root,
    encoding: "utf8",
  });
  assertEquals(status, 0, stderr);
});
