/** Tests of events that launches of a graph record and wait for. */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import type { CudaError } from "../../../mod.ts";
import { testOnEachDriver } from "../../support/drivers.ts";

testOnEachDriver("each launch records an external event and waits for one", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using other = gpu.createStream({ nonBlocking: true });
  using pool = gpu.createPool();
  using numbers = pool.allocateArray(Int32Array, 64, stream);
  using copy = pool.allocateArray(Int32Array, 64, stream);
  using host = cuda.allocateHost(256);
  using ready = gpu.createEvent();
  using done = gpu.createEvent({ timing: true });
  using begin = gpu.createEvent({ timing: true });
  await stream.finished();
  using graph = stream.capture(() => {
    stream.wait(ready, { external: true });
    stream.record(begin, { external: true });
    copy.copyFrom(numbers, stream);
    stream.record(done, { external: true });
    copy.fill(0, stream);
  });
  assertEquals(graph.nodes.map(({ type }) => type), ["wait", "record", "copy", "record", "fill"]);
  using exec = graph.instantiate();
  for (let launch = 1; launch <= 3; launch++) {
    numbers.fill(launch, other);
    other.record(ready);
    exec.launch(stream);
    // The event was recorded by the launch, in front of the graph's last fill.
    stream.wait(done);
    await done.finished();
    assert(done.query());
    assert(done.elapsedTime(begin) >= 0);
    numbers.copyTo(host, stream);
    await stream.finished();
    assertEquals(new Int32Array(host.buffer)[0], launch);
    other.wait(stream);
  }
});

testOnEachDriver("an event is external in a capture only, and not if other processes can open it", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  using other = gpu.createStream({ nonBlocking: true });
  using event = gpu.createEvent();
  using shared = gpu.createEvent({ interprocess: true });
  const outside = (call: () => void) => {
    const error = assertThrows(call) as CudaError;
    assertEquals(error.code, "cudaErrorIllegalState");
    assertMatch(error.message, /the stream is not captured: only nodes of a graph record and wait externally/);
  };
  outside(() => stream.record(event, { external: true }));
  outside(() => stream.wait(event, { external: true }));
  stream.record(event, { external: false });
  stream.wait(event, {});
  using graph = stream.capture(() => {
    outside(() => other.record(event, { external: true }));
    outside(() => other.wait(event, { external: true }));
    assertThrows(
      () => stream.record(shared, { external: true }),
      TypeError,
      "that other processes can open: record it",
    );
    assertThrows(() => stream.wait(shared, { external: true }), TypeError, "their process may end before it records");
    assertThrows(
      () => stream.wait(other as never, { external: true }),
      TypeError,
      "Cannot wait for a stream externally",
    );
    assertThrows(() => stream.wait(event, { external: 1 as never }), TypeError, "external");
    stream.record(event, { external: true });
  });
  assertEquals(graph.nodes.map(({ type }) => type), ["record"]);
});

testOnEachDriver("an event that was disposed of exists as long as the graph that records it", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream({ nonBlocking: true });
  const event = gpu.createEvent();
  const graph = stream.capture(() => stream.record(event, { external: true }));
  const exec = graph.instantiate();
  event[Symbol.dispose]();
  exec.launch(stream);
  graph[Symbol.dispose]();
  exec.launch(stream);
  exec[Symbol.dispose]();
  await stream.finished();
});
