/**
 * The cases of CuPy's tests of graphs (`tests/cupy_tests/cuda_tests/test_graph.py`), under their names, written anew from
 * what they check. Where CuPy lets CUDA invalidate a capture, the call is refused here, and the capture goes on.
 *
 * `test_capture_launch_host_func` has no counterpart: there are no host functions. Those about cuBLAS, cuSOLVER, cuRAND
 * and cuSPARSE ask that CuPy refuse to call them in a capture; here, no call of this library uses them.
 */
import { assert, assertEquals, assertNotEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { ptx } from "../../../kernels/saxpy.ts";
import type { Cuda, CudaError, CudaStream, DeviceArray } from "../../../mod.ts";
import { testOnEachDriver } from "../../support/drivers.ts";

const count = 100, shape = { grid: 1, block: 128 };

/** What each case uses: streams that do not block, a kernel, and arrays of ones and zeros. */
function prepare(cuda: Cuda) {
  const stack = new DisposableStack();
  const gpu = cuda.device(0);
  const [s1, s2] = [0, 1].map(() => stack.use(gpu.createStream({ nonBlocking: true }))) as [CudaStream, CudaStream];
  const pool = stack.use(gpu.createPool());
  const saxpy = stack.use(gpu.loadModule(ptx)).kernel("saxpy");
  const array = (value: number) => {
    const array = stack.use(pool.allocateArray(Float32Array, count, s1));
    array.fill(value, s1);
    return array;
  };
  const [ones, result] = [array(1), array(0)];
  gpu.synchronize();
  /** Enqueues `result += factor * ones`. */
  const add = (factor: number, stream: CudaStream, to: DeviceArray<Float32Array> = result) =>
    saxpy.launch({ ...shape, stream }, count, factor, ones, to);
  const first = async (stream: CudaStream) => (await result.read(Float32Array, { stream, length: 1 }))[0];
  return { gpu, s1, s2, ones, result, add, first, [Symbol.dispose]: () => stack.dispose() };
}

function codeOf(call: () => unknown): string {
  return (assertThrows(call, Error) as CudaError).code;
}

for (const upload of [true, false]) {
  testOnEachDriver(`test_capture_run_on_same_stream, upload ${upload}`, async (cuda) => {
    using place = prepare(cuda);
    const { s1, add, first } = place;
    for (let time = 1; time <= 3; time++) {
      using graph = s1.capture(() => add(2, s1));
      using exec = graph.instantiate(upload ? { upload: s1 } : {});
      exec.launch(s1);
      assertEquals(await first(s1), 2 * time);
    }
  });

  testOnEachDriver(`test_capture_run_on_different_streams, upload ${upload}`, async (cuda) => {
    using place = prepare(cuda);
    const { s1, s2, add, first } = place;
    for (let time = 1; time <= 3; time++) {
      using graph = s1.capture(() => add(2, s1));
      using exec = graph.instantiate();
      if (upload) exec.upload(s2);
      exec.launch(s2);
      assertEquals(await first(s2), 2 * time);
    }
  });
}

testOnEachDriver("test_stream_is_capturing", async (cuda) => {
  using place = prepare(cuda);
  const { gpu, s1, add, first } = place;
  using graph = s1.capture(() => {
    assert(s1.isCapturing);
    assert(!gpu.defaultStream.isCapturing);
    add(3, s1);
  });
  assert(!s1.isCapturing && !gpu.defaultStream.isCapturing);
  using exec = graph.instantiate();
  exec.launch(s1);
  assertEquals(await first(s1), 3);
});

testOnEachDriver("test_stream_fork_join", async (cuda) => {
  using place = prepare(cuda);
  const { gpu, s1, s2, add, first } = place;
  using e1 = gpu.createEvent();
  using e2 = gpu.createEvent();
  using graph = s1.capture(() => {
    add(100, s1);
    s1.record(e1);
    s2.wait(e1);
    add(3, s2);
    s2.record(e2);
    s1.wait(e2);
  });
  assert(!s1.isCapturing && !s2.isCapturing);
  using exec = graph.instantiate();
  exec.launch(s1);
  assertEquals(await first(s1), 103);
});

testOnEachDriver("test_null_stream_cannot_capture", async (cuda) => {
  using place = prepare(cuda);
  const { gpu, add, first } = place;
  using blocking = gpu.createStream();
  using graph = blocking.capture(() => {
    add(4, blocking);
    assert(blocking.isCapturing);
    assertEquals(codeOf(() => add(4, gpu.defaultStream)), "cudaErrorStreamCaptureImplicit");
  });
  assert(!blocking.isCapturing && !gpu.defaultStream.isCapturing);
  using exec = graph.instantiate();
  exec.launch(blocking);
  assertEquals(await first(blocking), 4);
});

testOnEachDriver("test_stream_capture_failure1 and 6: a synchronization", (cuda) => {
  using place = prepare(cuda);
  const { s1, add } = place;
  using graph = s1.capture(() => {
    assertEquals(codeOf(() => s1.synchronize()), "cudaErrorStreamCaptureUnsupported");
    add(1, s1);
  });
  assertEquals(graph.nodes.length, 1);
  assert(!s1.isCapturing);
  s1.synchronize();
});

testOnEachDriver("test_stream_capture_failure2: the end of a capture on another stream", (cuda) => {
  using place = prepare(cuda);
  const { s1, s2, add } = place;
  // A capture ends by its own object, which has the stream: it cannot end on another one.
  const capture = s1.beginCapture();
  assertEquals(capture.stream, s1);
  s2.wait(s1);
  add(3, s2);
  assertEquals(codeOf(() => capture.end()), "cudaErrorStreamCaptureUnjoined");
  assert(!s1.isCapturing && !s2.isCapturing);
  s1.synchronize();
  s2.synchronize();
});

testOnEachDriver("test_stream_capture_failure3 and 5: the host needs a result of the capture", (cuda) => {
  using place = prepare(cuda);
  const { s1, s2, result, add } = place;
  using graph = s1.capture(() => {
    s2.wait(s1);
    add(1, s2);
    const error = assertThrows(() => result.readSync(Float32Array, { stream: s2 }), Error);
    assertEquals((error as CudaError).code, "cudaErrorStreamCaptureUnsupported");
    assertStringIncludes(error.message, "is being captured");
    s1.wait(s2);
  });
  assertEquals(graph.nodes.length, 1);
  assert(!s1.isCapturing && !s2.isCapturing);
  s1.synchronize();
  s2.synchronize();
});

testOnEachDriver("test_stream_capture_failure4: whether a captured stream is done", (cuda) => {
  using place = prepare(cuda);
  const { s1, add } = place;
  using graph = s1.capture(() => {
    add(1, s1);
    assertEquals(codeOf(() => s1.query()), "cudaErrorStreamCaptureUnsupported");
    add(1, s1);
  });
  assertEquals(graph.nodes.length, 2);
  assert(!s1.isCapturing);
  s1.synchronize();
});

testOnEachDriver("test_debug_dot_str", (cuda) => {
  using place = prepare(cuda);
  const { s1, add } = place;
  using graph = s1.capture(() => add(1, s1));
  const [text, verbose] = [graph.toDot(), graph.toDot({ verbose: true })];
  for (const description of [text, verbose]) assertStringIncludes(description, "saxpy");
  assertNotEquals(text, verbose);
});
