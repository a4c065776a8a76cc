/**
 * What becomes of reports: counts, the summary, JSON lines, annotations, errors, exit codes.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { chmodSync, linkSync, readdirSync, readFileSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { type CudaStream, open, SanitizerError, type SanitizerReport } from "../../mod.ts";
import { annotationOf } from "../../src/sanitizer/reporting/outputs.ts";
import { framesOf } from "../../src/sanitizer/reporting/call_stacks.ts";
import { noPython, startHostile } from "../sharing/hostile/hostile_peers.ts";
import { remainingLines, startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { test } from "../support/test.ts";

const script = "report_in_ways.ts";
/** Without the variables of the tests' own environment, such as those of GitHub Actions. */
const plain = {
  POOLPASS_SANITIZE: "1",
  POOLPASS_SANITIZE_REPORT: "",
  POOLPASS_SANITIZE_SUPPRESS: "",
  GITHUB_ACTIONS: "",
  NO_COLOR: "1",
};

/** Runs a script with mistakes. */
async function run(how: readonly string[], env: Readonly<Record<string, string>> = {}) {
  await using child = startScript(`children/sanitizer/${script}`, how, { env: { ...plain, ...env } });
  const lines = await remainingLines(child);
  return { lines, errors: await child.errors(), ended: await child.ended, pid: child.pid };
}

function linesOf(folder: string) {
  return readdirSync(folder).flatMap((file) => {
    return readFileSync(`${folder}/${file}`, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
  });
}

test("a mistake that is made again is reported once, with a count that grows", () => {
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver: "software", sanitize: true, onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  using buffer = gpu.allocate(1024);
  const streams = [0, 1].map(() => gpu.createStream({ nonBlocking: true })) as [CudaStream, CudaStream];
  for (let time = 1; time <= 5; time++) {
    // The second fill conflicts with several earlier ones: one mistake, found once.
    for (const part of [0, 256, 512]) buffer.subarray(part, part + 128).fill(1, streams[0]);
    buffer.fill(2, streams[1]);
    gpu.synchronize();
    assertEquals(reports.map(({ count }) => count), [3 * time]);
  }
  for (const stream of streams) stream[Symbol.dispose]();
});

test("an operation that meets the same earlier one in several places is counted once", () => {
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver: "software", sanitize: true, onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  using buffer = gpu.allocate(1024);
  const streams = [0, 1].map(() => gpu.createStream({ nonBlocking: true })) as [CudaStream, CudaStream];
  buffer.fill(1, streams[0]);
  // The second fill splits the segment of the first one.
  using host = cuda.allocateHost(256);
  buffer.subarray(256, 512).copyTo(host, streams[0]);
  buffer.fill(2, streams[1]);
  gpu.synchronize();
  assertEquals(reports.map(({ kind, count }) => [kind, count]), [
    ["unordered-write-write", 1],
    ["unordered-read-write", 1],
  ]);
  for (const stream of streams) stream[Symbol.dispose]();
});

test("call stacks have as many frames as Error.stackTraceLimit asks for", () => {
  const errors = Error as unknown as { stackTraceLimit: number };
  const limit = errors.stackTraceLimit;
  const reports: SanitizerReport[] = [];
  using cuda = open({ driver: "software", sanitize: true, onReport: (report) => reports.push(report) });
  const gpu = cuda.device(0);
  using buffer = gpu.allocate(1024);
  using one = gpu.createStream({ nonBlocking: true });
  using other = gpu.createStream({ nonBlocking: true });
  const nested = (depth: number, fill: () => void): void => {
    if (depth > 0) nested(depth - 1, fill);
    else fill();
    // Not in tail position, because engines keep no frame of a tail call.
    void depth;
  };
  const outermost = () => {
    nested(12, () => buffer.fill(1, one));
    nested(12, () => buffer.fill(2, other));
  };
  try {
    for (const frames of [undefined, 40]) {
      errors.stackTraceLimit = frames ?? limit;
      outermost();
      gpu.synchronize();
      assertEquals(errors.stackTraceLimit, frames ?? limit);
    }
  } finally {
    errors.stackTraceLimit = limit;
  }
  assertEquals(reports.map(({ accesses }) => accesses.every(({ stack }) => stack.includes("outermost"))), [
    false,
    true,
  ]);
  assert(reports.every(({ accesses }) => accesses.every(({ stack }) => stack.includes("nested"))));
});

test("the end says what was found and how often, and fails the process", async () => {
  const summary = `1 mistake: unordered-write-write at ${script}:34 (seen 3 times)`;
  const ended = await run(["end"]);
  assertEquals([ended.ended, ended.lines], [1, ["done"]]);
  assertStringIncludes(ended.errors, `\npoolpass sanitizer: ${summary}\n`);
  const disposed = await run(["dispose"]);
  assertEquals([disposed.ended, disposed.lines], [0, [
    `The sanitizer has found ${summary}; each was printed when it was found`,
    "done",
  ]]);
  assertEquals(disposed.errors.split(summary).length, 1, "the error has told it");
});

test("uncaught, the error is a few lines, and its stack is the program's alone", async () => {
  const { errors, ended } = await run(["dispose", "uncaught"]);
  assertEquals(ended, 1);
  const printed = errors.slice(errors.indexOf("The sanitizer has found"));
  assertStringIncludes(printed, `1 mistake: unordered-write-write at ${script}:`);
  assertStringIncludes(printed, `at main (`);
  assert(!errors.includes("/src/"), errors);
  assert(!printed.includes("accesses"), "the reports were printed before");
});

test("the summary names each kind once, with its places", () => {
  const report = (kind: string, line: number): SanitizerReport => ({
    check: "stream-order",
    kind,
    message: "m",
    count: 1,
    accesses: [{
      operation: "fill",
      access: "write",
      stream: undefined,
      stack: `at file:///a.ts:${line}:1`,
    }],
  });
  const reports = [report("unordered-write-read", 1), report("leak", 2), report("unordered-write-read", 3)];
  const { message } = new SanitizerError(reports);
  assertStringIncludes(message, "found 3 mistakes: unordered-write-read at a.ts:1, a.ts:3; leak at a.ts:2; each was");
  const many = new SanitizerError(Array.from({ length: 8 }, (_, index) => report("leak", index >> 1)));
  assertStringIncludes(many.message, "8 mistakes: leak at a.ts:0 (2 mistakes), a.ts:1 (2 mistakes)");
});

test("behind another error, the mistakes are a SuppressedError", { long: true }, async () => {
  const { lines } = await run(["throw"]);
  assertEquals(lines, ["true the program's own", "done"]);
});

test(
  "an error of the program that nobody catches is printed, although mistakes suppress it",
  { long: true },
  async () => {
    for (const when of ["now", "later"]) {
      const { errors, ended } = await run(["throw", "uncaught", when]);
      assertEquals(ended, 1);
      // Bun notifies no monitor of an unhandled rejection.
      if (when === "later" && "Bun" in globalThis) continue;
      const own = errors.indexOf("the program's own");
      assert(own > 0 && own < errors.indexOf("SanitizerError: The sanitizer has found"), errors);
      assertStringIncludes(errors, "TypeError: the program's own");
    }
  },
);

test("an error that nobody catches and that leaves the Cuda object ends the process with the list of mistakes", async () => {
  for (const when of ["now", "later"]) {
    await inFolder(async (folder) => {
      const { errors, ended } = await run(["leave", "uncaught", when], {
        POOLPASS_SANITIZE_REPORT: `${folder}/reports`,
      });
      assertEquals(ended, 1);
      assertStringIncludes(errors, "the program's own");
      const summary = `\npoolpass sanitizer: 1 mistake: unordered-write-write at ${script}:`;
      assertEquals(errors.split(summary).length, 2, errors);
      assertEquals(linesOf(folder).map(({ type }) => type), ["report", "end"]);
    });
  }
});

test("a listener gets the reports, and nothing is printed", async () => {
  const { lines, errors, ended } = await run(["listen"], { GITHUB_ACTIONS: "true" });
  assertEquals([lines, ended], [["unordered-write-write 3", "done"], 0]);
  assert(!errors.includes("sanitizer"), errors);
});

test("a program without mistakes ends as without the sanitizer", { long: true }, async () => {
  for (const how of [["right"], ["right", "dispose"]]) {
    const { lines, errors, ended } = await run(how, { GITHUB_ACTIONS: "true" });
    assertEquals([lines, ended], [["done"], 0]);
    assert(!errors.includes("poolpass"), errors);
  }
});

test("POOLPASS_SANITIZE_REPORT gets a line of JSON for each mistake, and one at the end", async () => {
  for (const how of ["end", "dispose", "listen"]) {
    await inFolder(async (folder) => {
      const { pid } = await run([how], { POOLPASS_SANITIZE_REPORT: `${folder}/reports.%p.json` });
      assertEquals(readdirSync(folder), [`reports.${pid}.json`]);
      const [report, end, ...others] = linesOf(folder);
      assertEquals(others, []);
      const { message, accesses, ...rest } = report;
      assertEquals(rest, {
        type: "report",
        pid,
        run: end.run,
        number: 1,
        check: "stream-order",
        kind: "unordered-write-write",
      });
      assertStringIncludes(message, "poolpass sanitizer: unordered-write-write");
      assertEquals(accesses.map(({ operation }: { operation: string }) => operation), ["fill", "fill"]);
      assertEquals(end, { type: "end", pid, run: end.run, counts: [3], suppressed: [] });
    });
  }
});

test("several processes add their lines to one file", { long: true }, async () => {
  await inFolder(async (folder) => {
    writeFileSync(`${folder}/reports`, '{"type":"other"}\n');
    const env = { POOLPASS_SANITIZE_REPORT: `${folder}/reports` };
    const runs = await Promise.all([run(["end"], env), run(["dispose"], env), run(["right"], env)]);
    const lines = linesOf(folder);
    assertEquals(lines.length, 1 + 2 + 2 + 1);
    assertEquals(lines[0], { type: "other" });
    for (const [index, { pid }] of runs.entries()) {
      const types = lines.filter((line) => line.pid === pid).map(({ type }) => type);
      assertEquals(types, index === 2 ? ["end"] : ["report", "end"]);
    }
  });
});

test("a report that cannot be written costs a warning, not the program's result", { long: true }, async () => {
  const cases = [
    ["/tmp", 'POOLPASS_SANITIZE_REPORT does nothing: cannot write "/tmp": it is a folder'],
    ["/nowhere/reports", 'does nothing: cannot write "/nowhere/reports": there is no such file or folder'],
    ["/dev/full", 'cannot write the sanitizer\'s reports to "/dev/full": there is no space left on its file system'],
  ] as const;
  for (const [path, warning] of cases) {
    const { lines, errors, ended } = await run(["right", "dispose"], { POOLPASS_SANITIZE_REPORT: path });
    assertEquals([lines, ended], [["done"], 0]);
    assertEquals(errors.split(warning).length, 2, errors);
  }
});

test("a report is not written where another user's link, file or pipe leads", {
  skip: noPython ?? (process.geteuid?.() === 0 ? undefined : "it takes root to become another user"),
}, () =>
  inFolder(async (folder) => {
    chmodSync(folder, 0o1777);
    writeFileSync(`${folder}/private`, "", { mode: 0o600 });
    await using stranger = startHostile("file_planters.py", ["reports", folder, `${folder}/private`]);
    assertEquals(await stranger.nextLine() ?? await stranger.errors(), "planted");
    // Whether another user can do that is a setting of the system.
    linkSync(`${folder}/private`, `${folder}/hard`);
    for (const name of ["link", "file", "pipe", "hard"]) {
      const path = `${folder}/${name}`;
      const { errors, ended } = await run(["right", "dispose"], { POOLPASS_SANITIZE_REPORT: path });
      assertEquals(ended, 0);
      const reason = name === "hard" ? "file with several names (hard links)" : `${name} of another user, 65534`;
      const warning = `POOLPASS_SANITIZE_REPORT does nothing: cannot write "${path}": it is a ${reason}`;
      assert(errors.includes(warning), errors);
    }
    unlinkSync(`${folder}/hard`);
    assertEquals(readFileSync(`${folder}/private`, "utf8") + readFileSync(`${folder}/file`, "utf8"), "");
    // A symbolic link of this user is followed.
    symlinkSync("private", `${folder}/own`);
    const { errors } = await run(["right", "dispose"], { POOLPASS_SANITIZE_REPORT: `${folder}/own` });
    assertEquals([errors, readFileSync(`${folder}/private`, "utf8").split("\n").length], ["", 2]);
  }));

test("in GitHub Actions, mistakes are annotations of the line of the later operation", async () => {
  const workspace = new URL("../../", import.meta.url).pathname;
  const { errors } = await run(["end"], { GITHUB_ACTIONS: "true", GITHUB_WORKSPACE: workspace });
  const [annotation, ...others] = errors.split("\n").filter((line) => line.startsWith("::"));
  assertEquals(others, []);
  assertStringIncludes(
    annotation!,
    `::error file=tests/children/sanitizer/${script},line=34,col=42,title=poolpass sanitizer%3A unordered-write-write::`,
  );
  assertStringIncludes(annotation!, "all 64 bytes of a buffer%0A  The write of fill");
});

test("annotations escape what GitHub takes for syntax, and name files of the repository alone", () => {
  const annotate = (stack: string, message = "m") =>
    annotationOf({
      check: "stream-order",
      kind: "k",
      message,
      count: 1,
      accesses: [{ operation: "fill", access: "write", stream: undefined, stack: "" }, {
        operation: "fill",
        access: "write",
        stream: undefined,
        stack,
      }],
    }, "/home/me/lab");
  const title = "title=poolpass sanitizer%3A k";
  assertEquals(
    annotate("at file:///home/me/lab/a,b%20c%25.ts:3:4", "50%\r\n::x"),
    `::error file=a%2Cb c%25.ts,line=3,col=4,${title}::50%25%0D%0A::x`,
  );
  assertEquals(
    annotate("at main (/home/me/laboratory/a.ts:3:4)"),
    `::error file=/home/me/laboratory/a.ts,line=3,col=4,${title}::m`,
  );
  assertEquals(annotate("at main (https://example.org/a.ts:3:4)"), `::error ${title}::m`);
  assertEquals(annotate(""), `::error ${title}::m`);
});

test("places are read from the call stacks of all runtimes", () => {
  const stack = [
    "at file:///home/me/a%20b.ts:1:2",
    "at async Object.run (file:///home/me/x.ts:3:4)",
    "at new Pipeline (/home/me/(old)/x.ts:5:6)",
    "at main@/home/me/x.ts:7:8",
    "at /home/me/x.ts:9",
    "at native code",
  ].join("\n");
  assertEquals(framesOf(stack), [
    { name: undefined, file: "/home/me/a b.ts", line: 1, column: 2 },
    { name: "Object.run", file: "/home/me/x.ts", line: 3, column: 4 },
    { name: "new Pipeline", file: "/home/me/(old)/x.ts", line: 5, column: 6 },
    { name: "main", file: "/home/me/x.ts", line: 7, column: 8 },
    { name: undefined, file: "/home/me/x.ts", line: 9, column: undefined },
  ]);
});
