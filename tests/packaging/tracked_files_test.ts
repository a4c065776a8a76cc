import { assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { test } from "../support/test.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const ignored = () =>
  spawnSync("git", [
    "-c",
    "safe.directory=*",
    "ls-files",
    "--cached",
    "--ignored",
    "--exclude-per-directory=.gitignore",
  ], { cwd: root });

const skip = !existsSync(`${root}/.git`) && "this is no clone" || ignored().error !== undefined && "git was not found";

test("nothing that git ignores is in the repository, such as caches and what examples write", { skip }, () => {
  const { status, stdout, stderr } = ignored();
  assertEquals([status, `${stdout}`, `${stderr}`], [0, "", ""]);
});
