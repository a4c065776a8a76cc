import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { formatStatus } from "../../cli/list.ts";
import { commandLine } from "../../cli/status/process_commands.ts";
import { cutTo, formatTable, widthOf } from "../../cli/status/table.ts";
import { formatJson } from "../../cli/status/json.ts";
import { formatBytes, formatDuration, formatRate } from "../../cli/status/units.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";
import { sharedFramesTest, statusWhen } from "./shared_frames.ts";
import { exporterStatus, now, storeStatus } from "./statuses.ts";

sharedFramesTest("list shows who holds what, and who has died", async ({ path, exporter, start }) => {
  const holder = await start("hold");
  const consumer = await start("consume");
  await statusWhen(path, ({ offers, statistics }) =>
    offers.filter(({ holders }) => holders.length > 0).length === 3 &&
    statistics.channels.every(({ consumers }) => consumers.length === 1 && consumers[0]!.sent > 2));
  const { code, output, errors } = await poolpass("list", path);
  assertEquals([code, errors], [0, ""]);
  const lines = output.split("\n");
  assertStringIncludes(lines[0]!, `Exporter at ${path}: process ${exporter.pid}, poolpass `);
  assertMatch(lines[1]!, /^4 offers, 8\.5 MiB; 2 importers, 1 operator; held 8\.5 MiB, quarantined 0 B$/);
  assertMatch(lines[3]!, /^name +kind +size +made +frames +dropped +lag +process +user +holds +since +command$/);
  const uid = process.getuid!();
  assertMatch(
    lines[4]!,
    new RegExp(`^weights +buffer +4\\.0 MiB +\\d+ s ago +${holder.pid} +${uid} +held +\\d+ s ago +\\S+`),
  );
  assertStringIncludes(lines[4]!, "shared_frames.ts hold");
  assertMatch(lines[5]!, /^bias +buffer +4\.0 KiB +\d+ s ago$/);
  assertMatch(lines[6]!, /^frames +channel +4\.0 MiB +\d+ s ago +[\d,]+ +0$/);
  assertMatch(lines[7]!, new RegExp(`^ +[\\d,]+ +0 +\\d+ +${consumer.pid} +${uid} +held`));
  assertMatch(lines[8]!, /^camera +channel +512\.0 KiB +\d+ s ago +[\d,]+ +[\d,]+$/);
  await holder.kill("SIGKILL");
  await statusWhen(path, ({ offers }) => offers[0]!.holders.length === 0);
  assertMatch((await poolpass("list", path)).output, /^weights +buffer +4\.0 MiB +\d+ s ago$/m);
  consumer.kill("SIGKILL");
  exporter.kill("SIGKILL");
  await exporter.ended;
  assertEquals(await poolpass("list", path), {
    code: 1,
    output: "",
    errors: `Cannot connect to ${path}: nothing listens at this socket; start the process that does\n`,
  });
});

test("list names what is wrong with its arguments", async () => {
  const lists = "poolpass list --help lists the options";
  assertEquals(
    (await poolpass("list")).errors,
    `There is no path: give that of an exporter's or a store's socket; ${lists}\n`,
  );
  assertEquals((await poolpass("list", "a", "b")).errors, `There is nothing to do with "b"; ${lists}\n`);
  assertEquals(
    (await poolpass("list", "a", "--user", "root")).errors,
    `There is no user "root": give a number, as id -u prints it; ${lists}\n`,
  );
});

test("an exporter's status is printed as a table, without what terminals run", () => {
  assertEquals(
    formatStatus({ status: exporterStatus(), path: "/run/frames.sock", listenerPid: 4711, now }),
    `
Exporter at /run/frames.sock: process 4711, 100 in its own namespace, poolpass 0.1.0, since 2 h
2 offers, 4.0 MiB, 1 withdrawn and held; 2 importers, 1 lingering, 1 operator; held 4.0 MiB, quarantined 1.0 KiB

name             kind        size  state      made        frames  dropped  lag    process  user  holds           since
weights          buffer   1.0 KiB             60 min ago
                                                                                      101  1000  held 2 times    90 s ago
                                                                                elsewhere  1000  quarantined     90 s ago
frames           channel  4.0 MiB             60 min ago   1,000        7
                                                             990        7    3        102  1000  held, 2 frames  90 s ago
\\x1b[31mold\\x0a  pool              withdrawn  60 min ago`.slice(1),
  );
});

test("a store's status is printed as a table, with what it does not list", () => {
  assertEquals(
    formatStatus({ status: storeStatus, path: "/run/store.sock", listenerPid: 0, now }),
    `
Store at /run/store.sock: a process elsewhere, poolpass 0.1.0, since 3 d
4 entries, 3.0 GiB of at most 64.0 GiB a device; 3 clients, 1 operator
Not listed, because there are too many: 2 rows, 1,000 holders

name        kind      size  generation  state     made        process  user  holds   since
llama/漢字  entry  2.0 GiB           2            60 s ago        201  1000  writes  61 s ago
llama/漢字  entry  1.0 GiB           1  replaced  60 min ago
                                                                  202  1001  reads   50 min ago
                                                                  203  1001  reads   5 s ago`.slice(1),
  );
});

test("JSON has no characters that terminals run, and reads as it was", () => {
  const value = { name: "\x1b[2J\x7f\x9b31m\u202eabc\u2028漢 😀" };
  const text = formatJson(value);
  assertEquals(text, '{"name":"\\u001b[2J\\u007f\\u009b31m\\u202eabc\\u2028漢 😀"}');
  assertEquals(JSON.parse(text), value);
});

const namespaces = ["-pf", "--mount-proc", "--kill-child"];
const noNamespaces = spawnSync("unshare", [...namespaces, "true"]).status !== 0 &&
  "this user cannot make a PID namespace";

test(
  "an exporter of another PID namespace is the process that the operator sees",
  { skip: shimRefusal() ?? noNamespaces },
  () =>
    inFolder(async (folder) => {
      const path = `${folder}/frames.sock`;
      await using child = startScript("children/cli/shared_frames.ts", ["export", path], {
        env: { POOLPASS_DRIVER: "software", NODE_NO_WARNINGS: "1" },
        namespaces,
      });
      assertEquals(await child.nextLine(), "ready");
      const { output } = await poolpass("list", path);
      child.kill("SIGKILL");
      const [, pid, own] = /: process (\d+), (\d+) in its own namespace, /.exec(output) ?? [];
      assertEquals(own, "1", output);
      assert(Number(pid) > 1, output);
    }),
);

test("an exporter's log names operators", { skip: shimRefusal() }, () =>
  inFolder(async (folder) => {
    const path = `${folder}/frames.sock`;
    await using child = startScript("children/cli/shared_frames.ts", ["export", path], {
      env: { POOLPASS_DRIVER: "software", POOLPASS_LOG: "1", NODE_NO_WARNINGS: "1" },
    });
    assertEquals(await child.nextLine(), "ready");
    assertEquals((await poolpass("list", path)).code, 0);
    await statusWhen(path, ({ statistics }) => statistics.operators === 1);
    child.kill("SIGKILL");
    const peer = `path=${path} peer=${process.pid} uid=${process.getuid!()}`;
    const lines = (await child.errors()).split("\n").filter((line) => line.includes("operator"));
    assertStringIncludes(lines[0]!, ` operator-connect ${peer}`);
    assertStringIncludes(lines[1]!, ` operator-disconnect ${peer} code=done`);
  }));

test("numbers have units, and tables the widths of what they show", () => {
  assertEquals([0, 1023, 1024, 1_048_525, 2 ** 20, 1023.9 * 2 ** 30, 2 ** 53].map(formatBytes), [
    "0 B",
    "1023 B",
    "1.0 KiB",
    "1.0 MiB",
    "1.0 MiB",
    "1.0 TiB",
    "8.0 PiB",
  ]);
  assertEquals([-5, 119_999, 120_000, 7_200_000, 172_800_000].map(formatDuration), [
    "0 s",
    "119 s",
    "2 min",
    "2 h",
    "2 d",
  ]);
  assertEquals([0, 59.94, 1234.5].map(formatRate), ["0.0", "59.9", "1,235"]);
  assertEquals(["é", "e\u0301", "漢", "😀", "\u200b"].map(widthOf), [1, 1, 2, 2, 0]);
  assertEquals([cutTo("a漢字", 3), cutTo("a漢字", 4), cutTo("abc", 9)], ["a漢", "a漢", "abc"]);
  const columns = [{ name: "a" }, { name: "empty" }, { name: "n", align: "right" }] as const;
  assertEquals(formatTable(columns, [["漢", "", "1"], ["x", "", "100"]]), ["a     n", "漢    1", "x   100"]);
});

test("commands are shown without the options of their runtimes", () => {
  const cases: readonly (readonly [program: string, words: readonly string[], shown: string])[] = [
    ["deno", ["run", "-A", "--no-check", "src/a.ts", "--flag", "x"], "deno a.ts --flag x"],
    ["node", ["--import=x", "/usr/lib/a.js"], "node a.js"],
    ["python3.12", ["-u", "train.py", "-x"], "python3.12 train.py -x"],
    ["deno", ["repl"], "deno repl"],
    ["trainer", ["-v", "--config", "x"], "trainer -v --config x"],
    ["trainer", [], "trainer"],
    ["trainer", ["y".repeat(80)], `trainer ${"y".repeat(51)}…`],
  ];
  for (const [program, words, shown] of cases) assertEquals(commandLine(program, words), shown);
});
