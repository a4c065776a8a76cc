import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { existsSync, lstatSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { ptx } from "../../kernels/fill.ts";
import { CudaError, open } from "../../mod.ts";
import { callEffects, type CallName } from "../../src/call_effects.ts";
import { readTrace, type Trace } from "../../src/trace/read_trace.ts";
import { recordedValues } from "../../src/trace/traced_driver.ts";
import { startScript } from "../support/child_process.ts";
import { inFolder } from "../support/folders.ts";
import { isLong, test } from "../support/test.ts";

const skip = shimRefusal();
const read = (file: string): Trace => readTrace(file, new Uint8Array(readFileSync(file)));
const names = ({ events }: Trace): string[] => events.map(({ name }) => name);

test(
  "a trace has the calls of a program with their values, and the kernels when they ran",
  { skip },
  () =>
    inFolder(async (folder) => {
      const file = `${folder}/program.trace`;
      const before = performance.now();
      {
        using cuda = open({ driver: "software", softwareThreads: 1, trace: file });
        const gpu = cuda.device(0);
        using stream = gpu.createStream();
        using pool = gpu.createPool();
        using module = gpu.loadModule(ptx);
        using event = gpu.createEvent();
        const buffer = pool.allocate(4096, stream);
        buffer.copyFrom(new Uint8Array(16), { stream });
        module.kernel("fill").launch({ grid: 4, block: 256, stream }, buffer, 1024n, 7);
        stream.record(event);
        await stream.finished();
        buffer.free(stream);
        assertThrows(() => pool.allocate(2 ** 50, stream), CudaError);
      }
      const elapsed = (performance.now() - before) * 1e6;
      const trace = read(file);
      assertEquals([trace.process.pid, trace.process.driver, trace.replaced, trace.namesLost], [
        process.pid,
        "software",
        0,
        0,
      ]);
      const found = (name: string) => trace.events.filter((event) => event.name === name);
      const [allocation, failed] = found("mallocFromPoolAsync");
      const [stream] = found("streamCreateWithPriority");
      const { byteLength, address, stream: on } = allocation!.values;
      assertEquals([allocation!.device, byteLength, on], [0, 4096, stream!.values.stream]);
      assertEquals([failed!.hasThrown, failed!.values.byteLength], [true, 2 ** 50]);
      const [copy] = found("memcpyHtoDAsync");
      assertEquals([copy!.values.destination, copy!.values.byteLength, copy!.values.stream], [address, 16, on]);
      assertEquals(found("moduleLoadData")[0]!.values.length, ptx.length);
      const [launch] = found("launchKernel");
      assertEquals([trace.kernels.get(launch!.values.kernel!), launch!.values.blocks, launch!.values.threads], [
        "fill",
        4,
        256,
      ]);
      const [kernel] = found("kernel");
      assertEquals([trace.texts.get(kernel!.values.name!), kernel!.values.stream], ["fill", on]);
      assert(kernel!.begin >= launch!.begin && kernel!.duration > 0, JSON.stringify([launch, kernel]));
      assertEquals(found("freeAsync")[0]!.values.address, address);
      const order = [
        "memPoolCreate",
        "mallocFromPoolAsync",
        "memcpyHtoDAsync",
        "launchKernel",
        "eventRecord",
        "freeAsync",
      ];
      const listed = names(trace);
      assertEquals(order.toSorted((a, b) => listed.indexOf(a) - listed.indexOf(b)), order);
      for (const { begin, duration } of trace.events) {
        assert(
          begin >= trace.process.beganMonotonic - 1e6 &&
            begin + duration <= trace.process.beganMonotonic + elapsed + 1e6,
        );
      }
    }),
);

test("what is recorded of a call are parameters that it has", () => {
  const source = readFileSync(new URL("../../src/driver.ts", import.meta.url), "utf8");
  const [, body] = /^export interface Driver \{\n(.*?)^\}/ms.exec(source)!;
  const wrong: string[] = [];
  for (const [, name, list] of body!.matchAll(/^ {2}(\w+)\((.*?)\):/gms)) {
    const parameters = [...list!.matchAll(/(\w+)\??:/g)].map(([, parameter]) => parameter!);
    const words = (recordedValues[name as CallName] ?? "").split(" ").filter((word) => word !== "");
    const recorded = words.filter((word) => !word.startsWith("->") && word !== "-" && word !== "device");
    if (recorded.length + words.filter((word) => word.startsWith("->")).length > 4) {
      wrong.push(`${name} has over 4 values`);
    }
    for (const [index, word] of words.entries()) {
      if (word === "-" || word.startsWith("->")) continue;
      if (parameters[index] !== word.split(".")[0]) wrong.push(`${name}: ${word} is ${parameters[index]}`);
    }
  }
  assertEquals(wrong, []);
  assertEquals(Object.keys(recordedValues).filter((name) => !Object.hasOwn(callEffects, name)), []);
});

test("a trace keeps the newest events, and says how many it has replaced", { skip }, () =>
  inFolder(async (folder) => {
    const file = `${folder}/ring.trace`;
    {
      using cuda = open({ driver: "software", trace: file, traceEvents: 50 });
      const stream = cuda.device(0).createStream();
      const pool = cuda.device(0).createPool();
      for (let round = 1; round <= 100; round++) pool.allocate(round, stream).free(stream);
      await stream.finished();
    }
    const { events, replaced } = read(file);
    assertEquals(events.length, 50);
    assertEquals(events.map(({ number }) => number), Array.from({ length: 50 }, (_, index) => replaced + 1 + index));
    const last = events.filter(({ name }) => name === "mallocFromPoolAsync").at(-1);
    assertEquals(last!.values.byteLength, 100);
  }));

test("only this user can read a trace, and no link is followed", { skip }, () =>
  inFolder(async (folder) => {
    writeFileSync(`${folder}/target`, "unchanged");
    symlinkSync(`${folder}/target`, `${folder}/link`);
    {
      using _ = open({ driver: "software", trace: `${folder}/file.%p.trace` });
    }
    assertEquals(statSync(`${folder}/file.${process.pid}.trace`).mode & 0o777, 0o600);
    // The link has the name, so the trace has another one.
    {
      using _ = open({ driver: "software", trace: `${folder}/link` });
    }
    assertEquals(readFileSync(`${folder}/target`, "utf8"), "unchanged");
    assert(lstatSync(`${folder}/link`).isSymbolicLink());
    const linked = read(`${folder}/link.${process.pid}`).process;
    assertEquals(linked.pid, process.pid);
    // Both are of the same thread.
    assertEquals(linked.thread, read(`${folder}/file.${process.pid}.trace`).process.thread);
    await Promise.resolve();
  }));

test(
  "processes that name the same file have traces of their own, and an older one is replaced",
  { skip },
  () =>
    inFolder(async (folder) => {
      const file = `${folder}/shared.trace`;
      const start = () =>
        startScript("children/trace/record.ts", [], {
          env: { POOLPASS_DRIVER: "software", POOLPASS_TRACE: file, NODE_NO_WARNINGS: "1" },
        });
      const pids: number[] = [];
      {
        await using first = start();
        assertEquals(await first.nextLine() ?? await first.errors(), "ready");
        await using second = start();
        assertEquals(await second.nextLine() ?? await second.errors(), "ready");
        pids.push(first.pid, second.pid);
        assertEquals(read(file).process.pid, first.pid);
        assertEquals(read(`${folder}/shared.${second.pid}.trace`).process.pid, second.pid);
        first.kill("SIGKILL");
        second.kill("SIGKILL");
        await Promise.all([first.ended, second.ended]);
      }
      await using third = start();
      assertEquals(await third.nextLine() ?? await third.errors(), "ready");
      assertEquals(read(file).process.pid, third.pid);
      third.kill("SIGKILL");
      await third.ended;
    }),
);

test("Workers have traces of their own, which stay when they end", { skip }, () =>
  inFolder(async (folder) => {
    await using child = startScript("children/open_in_threads.ts", ["main", "worker", "worker"], {
      env: { REQUESTED: "1", POOLPASS_TRACE: `${folder}/%p.trace`, NODE_NO_WARNINGS: "1" },
      permissions: ["--allow-ffi", "--allow-read", "--allow-env"],
    });
    assertEquals([await child.ended, await child.errors()], [0, ""]);
    const traces = readdirSync(folder).map((name) => read(`${folder}/${name}`));
    assertEquals(traces.map(({ process }) => process.pid), [child.pid, child.pid, child.pid]);
    assertEquals(new Set(traces.map(({ process }) => process.thread)).size, 3);
    for (const trace of traces) {
      assertMatch(trace.file, /\.trace$/);
      assertEquals(names(trace).filter((name) => name === "close").length, 2);
    }
  }));

test("the trace of a process that was killed at any time is complete", { skip }, () =>
  inFolder(async (folder) => {
    for (let round = 0; round < (isLong ? 200 : 4); round++) {
      const file = `${folder}/killed.trace`;
      await using child = startScript("children/trace/record.ts", [], {
        env: {
          POOLPASS_DRIVER: "software",
          POOLPASS_TRACE: file,
          POOLPASS_TRACE_EVENTS: "1000",
          POOLPASS_TRACE_KERNELS: round % 2 === 0 ? "0" : "1",
          NODE_NO_WARNINGS: "1",
        },
      });
      assertEquals(await child.nextLine() ?? await child.errors(), "ready");
      // A running process's trace is read as it is.
      while (read(file).replaced < 1000 * Math.random()) await new Promise((resolve) => setImmediate(resolve));
      child.kill("SIGKILL");
      await child.ended;
      const { events, replaced } = read(file);
      assert(events.length >= 999, `${events.length} of 1000 events`);
      assert(replaced > 0 && events.every(({ number }) => number > replaced));
      // The device knows the times of its kernels exactly, and events measure them.
      const kernels = events.filter(({ name }) => name === "kernel");
      assert(kernels.length > 0 && kernels.every(({ values }) => values.error! > 0 === (round % 2 !== 0)));
    }
  }));

test(
  "a variable that names no file that can be recorded warns once, and an option throws",
  { skip },
  () =>
    inFolder(async (folder) => {
      const file = `${folder}/none/file.trace`;
      assertMatch(
        assertThrows(() => open({ driver: "software", trace: file }), Error).message,
        /^Cannot record a trace in ".*none\/file\.trace": there is no such folder; make it first$/,
      );
      assertThrows(() => open({ driver: "software", trace: "" }), RangeError, 'Cannot record a trace in ""');
      for (
        const [path, why] of [[folder, "folder; give the path of a file in it"], [`${folder}/`, "folder; "], [
          "/dev/null",
          "character device; give the path of a file",
        ]] as const
      ) {
        assertThrows(() => open({ driver: "software", trace: path }), Error, `"${path}": it is a ${why}`);
      }
      // Nothing is left in the folder.
      assertEquals(readdirSync(folder), []);
      assertThrows(
        () => open({ driver: "software", trace: 5 as unknown as string }),
        TypeError,
        "Cannot record a trace in 5",
      );
      const events = "Cannot record a trace of 0.5 events: give a whole number from 1 to 16777216";
      assertThrows(() => open({ driver: "software", trace: file, traceEvents: 0.5 }), RangeError, events);
      await using child = startScript("children/trace/record.ts", [], {
        env: { POOLPASS_DRIVER: "software", POOLPASS_TRACE: file, NODE_NO_WARNINGS: "1" },
      });
      assertEquals(await child.nextLine(), "ready");
      child.kill("SIGKILL");
      assertMatch(
        await child.errors(),
        /^poolpass: POOLPASS_TRACE does nothing: Cannot record a trace in ".*": there is no such folder; make it first\n$/,
      );
      assert(!existsSync(file));
    }),
);

test("a range has the duration of its function, and what is within it", { skip }, () =>
  inFolder(async (folder) => {
    const file = `${folder}/ranges.trace`;
    {
      using cuda = open({ driver: "software", trace: file });
      using stream = cuda.device(0).createStream();
      assertEquals(cuda.range("outer", () => cuda.range("inner", () => (stream.synchronize(), 5))), 5);
      await cuda.range("asynchronous", () => stream.finished());
      const event = cuda.device(0).createEvent();
      stream.record(event);
      event[Symbol.dispose]();
      // Rejects, as without a trace, and does not throw.
      await assertRejects(() => event.finished(), ReferenceError, "Cannot use the event: it was disposed");
      const failure = new Error("It fails");
      assertEquals(
        assertThrows(() =>
          cuda.range("failing", () => {
            throw failure;
          })
        ),
        failure,
      );
      assertEquals(await assertRejects(() => cuda.range("rejecting", () => Promise.reject(failure))), failure);
      assertThrows(() => cuda.range(5 as unknown as string, () => {}), TypeError, "Cannot name a range 5");
      assertThrows(() => cuda.range("x", 5 as unknown as () => void), TypeError, "Cannot call 5 in a range");
    }
    const trace = read(file);
    const ranges = trace.events.filter(({ name }) => name === "range");
    const named = new Map(ranges.map((range) => [trace.texts.get(range.values.name!), range]));
    assertEquals([...named.keys()], ["inner", "outer", "asynchronous", "failing", "rejecting"]);
    const [outer, inner] = [named.get("outer")!, named.get("inner")!];
    assert(outer.begin <= inner.begin && outer.begin + outer.duration >= inner.begin + inner.duration);
    const [wait] = trace.events.filter(({ name }) => name === "wait for stream");
    const asynchronous = named.get("asynchronous")!;
    assertEquals(
      wait!.values.stream,
      trace.events.find(({ name }) => name === "streamCreateWithPriority")!.values.stream,
    );
    assert(wait!.begin >= asynchronous.begin && wait!.duration <= asynchronous.duration);
    const call = trace.events.find(({ name }) => name === "streamSynchronize")!;
    assert(call.begin >= inner.begin && call.begin + call.duration <= inner.begin + inner.duration);
    assertEquals([...named.values()].map(({ hasThrown }) => hasThrown), [false, false, false, true, true]);
    // Without a trace, the function is only called.
    using cuda = open({ driver: "software" });
    assertEquals(cuda.range("nothing", () => 7), 7);
    // A rejection that nobody handles is reported, as without a trace.
    await using child = startScript("children/trace/unhandled.ts", [], {
      env: { POOLPASS_DRIVER: "software", POOLPASS_TRACE: `${folder}/unhandled.trace`, NODE_NO_WARNINGS: "1" },
    });
    assertEquals(await child.ended, 1);
    assertMatch(await child.errors(), /Nobody handles this/);
  }));
