import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import process from "node:process";
import { type ChildProcess, remainingLines, startScript } from "../support/child_process.ts";
import { driversUnderTest, type DriverUnderTest } from "../support/drivers.ts";
import { test } from "../support/test.ts";

const permissions = ["--allow-ffi", "--allow-run"];
const visibleDeviceCounts = new Map(driversUnderTest.map((driver) => [driver.name, countDevices(driver)]));

interface Run {
  readonly code: number | string;
  readonly lines: readonly string[];
  readonly errors: string;
}

/**
 * Declares a test on each driver that a program's environment can select, with as many software devices as requested.
 */
function testPrograms(
  name: string,
  body: (start: (program: string, args?: readonly string[]) => ChildProcess, deviceCount: number) => Promise<void>,
  { devices = 2, only, long = false }: { devices?: number; only?: "software"; long?: boolean } = {},
): void {
  for (const driver of driversUnderTest) {
    if (driver.name !== "software" && (driver.name !== "cuda" || only !== undefined)) continue;
    const deviceCount = driver.name === "software" ? devices : visibleDeviceCounts.get(driver.name)!;
    const env = { POOLPASS_DRIVER: driver.name, POOLPASS_SOFTWARE_DEVICES: String(devices) };
    test(`${name} [${driver.name}]`, { skip: driver.skip, long }, async () => {
      const started: ChildProcess[] = [];
      await using children = new AsyncDisposableStack();
      const start = (program: string, args: readonly string[] = []) => {
        const child = children.use(startScript(`../examples/${program}.ts`, args, { env, permissions }));
        started.push(child);
        return child;
      };
      await body(start, deviceCount);
      assertEquals(socketFilesOf(started), [], "No socket's file is left");
    });
  }
}

for (const program of ["stream_ordered_allocation_ipc", "simple_ipc", "mem_map_ipc"]) {
  for (const devices of [1, 2, 4]) {
    testPrograms(
      `${program}: each of ${devices} processes writes to each buffer and verifies its own`,
      async (start, count) => {
        const { code, lines, errors } = await finish(start(program));
        assertEquals(code, 0, errors);
        assertEquals(lines[0]!.split("), ").length, count);
        const reports = lines.slice(1, -1).sort();
        assertEquals(
          reports,
          Array.from({ length: count }, (_, n) => `Child ${n} on device ${n}: every byte is right`),
        );
        assertEquals(lines.at(-1), `All ${count} children have verified their buffers of 67108864 bytes`);
      },
      {
        devices,
        ...devices === 2 ? { long: program !== "stream_ordered_allocation_ipc" } : { only: "software", long: true },
      },
    );
  }
}

testPrograms("stream_ordered_allocation_ipc: the children may see the devices in another order", async (start) => {
  const { code, lines, errors } = await finish(start("stream_ordered_allocation_ipc", ["--children-see", "2,0,1"]));
  assertEquals(code, 0, errors);
  assert(lines.includes("Child 0 on device 1: every byte is right"), lines.join("\n"));
  assert(lines.includes("Child 2 on device 0: every byte is right"), lines.join("\n"));
}, { devices: 3, only: "software", long: true });

testPrograms("stream_ordered_allocation_ipc: a child that does not see a device names it", async (start) => {
  const { code, errors } = await finish(start("stream_ordered_allocation_ipc", ["--children-see", "0"]));
  assertEquals(code, 1);
  const uuid = "GPU-706f6f6c-7061-7373-2073-6f6674776101";
  assertMatch(
    errors,
    new RegExp(`\\[child \\d\\] Error: Cannot take part: this process does not see the group's device 1, ${uuid}`),
  );
  assertStringIncludes(errors, "[parent] Error: ");
}, { only: "software", long: true });

for (const program of ["stream_ordered_allocation_ipc", "simple_ipc", "mem_map_ipc"]) {
  for (const milliseconds of [0, 150, 400, 900]) {
    testPrograms(`${program}: when a child dies after ${milliseconds} ms, all processes end`, async (start) => {
      const parent = start(program);
      await parent.nextLine();
      const [victim, ...others] = await childrenOf(parent.pid);
      // The child may be at any of its steps when it dies. On a fast machine, it may have finished.
      await new Promise((resolve) => setTimeout(resolve, milliseconds));
      const wasKilled = kill(victim!);
      const { code, lines, errors } = await finish(parent);
      if (code === 0) assert(!wasKilled || lines.at(-1)!.startsWith("All 3 children have verified"), errors);
      else assertStringIncludes(errors, "[parent] Error: ");
      for (const other of others) assertEquals(parentOf(other), undefined, "A child is left");
    }, { devices: 3, only: "software", long: milliseconds > 0 || program !== "simple_ipc" });
  }
}

testPrograms("ready_event: when the producer dies, the consumer ends", async (start) => {
  const producer = start("ready_event");
  const [consumer] = await childrenOf(producer.pid);
  producer.kill("SIGSTOP");
  producer.kill("SIGKILL");
  await producer.ended;
  while (isRunning(consumer!)) await new Promise((resolve) => setTimeout(resolve, 5));
  // A producer that is killed leaves the socket's file behind.
  rmSync(`/tmp/poolpass-ready-${producer.pid}.sock`, { force: true });
}, { only: "software", long: true });

testPrograms("ready_event: the consumer's stream waits for the producer's", async (start) => {
  const { code, errors } = await finish(start("ready_event"));
  assertEquals(code, 0, errors);
  const said = errors.trim().split("\n");
  assertEquals(said.pop(), "[producer] The consumer is done");
  // The order of the two processes' output is not defined.
  assertEquals(said.sort(), [
    "[consumer] All 1048576 elements are right",
    "[producer] Shared the buffer without waiting for it",
  ]);
});

testPrograms("graph_frames: another process reads one frame while the graph writes the next", async (start) => {
  const { code, errors } = await finish(start("graph_frames", ["--frames", "12"]));
  assertEquals(code, 0, errors);
  assertEquals(errors.trim().split("\n"), [
    "[reader] All words of 12 frames are right",
    "[writer] One graph has written 12 frames",
  ]);
});

testPrograms("programs name the arguments that they cannot use", async (start) => {
  for (
    const [args, message] of [[["--devices", "0"], "whole number from 1"], [
      ["--nonesuch"],
      "There is no option",
    ]] as const
  ) {
    const { code, errors } = await finish(start("simple_ipc", args));
    assertEquals(code, 1);
    assertStringIncludes(errors, message);
    assertStringIncludes(errors, "Usage: simple_ipc");
  }
}, { only: "software", long: true });

async function finish(child: ChildProcess): Promise<Run> {
  const lines = await remainingLines(child);
  return { code: await child.ended, lines, errors: await child.errors() };
}

/** The child processes of a process, once it has started any. */
async function childrenOf(pid: number): Promise<number[]> {
  for (;;) {
    const found = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map(Number).filter((each) =>
      parentOf(each) === pid
    );
    if (found.length > 0) return found;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** Kills a process. Returns false if it has already ended. */
function kill(pid: number): boolean {
  try {
    process.kill(pid, "SIGKILL");
    return true;
  } catch {
    return false;
  }
}

/**
 * Whether a process is running. An ended one stays in /proc until its parent, or the process that adopts it, waits for
 * it.
 */
function isRunning(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2)[0] !== "Z";
  } catch {
    return false;
  }
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    return undefined; // The process has ended.
  }
}

/** The socket files of these processes alone: other such programs may be running. */
function socketFilesOf(children: readonly ChildProcess[]): string[] {
  const names = new Set(children.flatMap(({ pid }) => [`poolpass-group-${pid}.sock`, `poolpass-ready-${pid}.sock`]));
  return readdirSync("/tmp").filter((name) => names.has(name));
}

function countDevices(driver: DriverUnderTest): number {
  if (driver.skip !== false) return 0;
  const opened = driver.open();
  const count = opened.getDeviceCount();
  opened.close();
  return count;
}
