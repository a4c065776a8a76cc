import { CudaStream, open } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Streams and events", import.meta.url);

mistake("nonblocking with a small b", ({ gpu }) => {
  gpu.createStream({ nonblocking: true });
});

mistake("nonBlocking as a string", ({ gpu }) => {
  gpu.createStream({ nonBlocking: "false" });
});

mistake("a priority by name", ({ gpu }) => {
  gpu.createStream({ priority: "high" });
});

mistake("a fractional priority", ({ gpu }) => {
  gpu.createStream({ priority: 0.5 });
});

mistake("a priority that the device does not have", ({ gpu }) => {
  gpu.createStream({ priority: -100 });
});

mistake("the priority as the only argument", ({ gpu }) => {
  gpu.createStream(-1);
});

mistake("a priority set afterwards", ({ stream }) => {
  stream.priority = -1;
});

mistake("flags, as for cudaStreamCreateWithFlags", ({ gpu }) => {
  gpu.createStream({ flags: 1 });
});

mistake("new CudaStream", () => {
  new CudaStream();
});

mistake("wait for a device", ({ gpu }) => {
  gpu.createStream().wait(gpu);
});

mistake("wait for an event that was never recorded", ({ withEnvironment }) => {
  const gpu = withEnvironment({ POOLPASS_DEBUG: "1" }, () => open()).device(0);
  gpu.createStream().wait(gpu.createEvent());
});

mistake("elapsedTime without timing", ({ gpu, stream }) => {
  const [begin, end] = [gpu.createEvent(), gpu.createEvent()];
  stream.record(begin);
  stream.record(end);
  stream.synchronize();
  end.elapsedTime(begin);
});

mistake("elapsedTime before the work is done", ({ gpu, stream, x }) => {
  const [begin, end] = [gpu.createEvent({ timing: true }), gpu.createEvent({ timing: true })];
  stream.record(begin);
  x.fill(0);
  stream.record(end);
  end.elapsedTime(begin);
});

mistake("interProcess with a capital P", ({ gpu }) => {
  gpu.createEvent({ interProcess: true });
});

mistake("enableTiming, as in Python", ({ gpu }) => {
  gpu.createEvent({ enableTiming: true });
});

mistake("an interprocess event with timing", ({ gpu }) => {
  gpu.createEvent({ interprocess: true, timing: true });
});

mistake("an event exported that is not interprocess", ({ event }) => {
  event.exportHandle();
});

mistake("an event of this process opened here", ({ gpu }) => {
  gpu.openEvent(gpu.createEvent({ interprocess: true }).exportHandle());
});

mistake("an event opened from too few bytes", ({ gpu }) => {
  gpu.openEvent(new Uint8Array(8));
});

mistake("an event opened from zeros", ({ gpu }) => {
  gpu.openEvent(new Uint8Array(64));
});

mistake("a timeout option that does not exist", async ({ stream }) => {
  await stream.finished({ timeout: 1000 });
});

mistake("a controller for its signal", async ({ stream }) => {
  await stream.finished({ signal: new AbortController() });
});

mistake("the signal without its name", async ({ stream }) => {
  await stream.finished(AbortSignal.timeout(1000));
});

mistake("a wait that was aborted", async ({ stream, x }) => {
  x.fill(0);
  await stream.finished({ signal: AbortSignal.abort() });
});

mistake("an event of another open()", ({ stream }) => {
  stream.wait(open().device(0).createEvent());
});

mistake("an event recorded on another device's stream", ({ peer, event }) => {
  peer.createStream().record(event);
});

mistake("a CudaStream wrapped", ({ gpu, stream }) => {
  gpu.wrapStream(stream);
});

mistake("a stream's handle as a number", ({ gpu, stream }) => {
  gpu.wrapStream(Number(stream.unsafeHandle));
});

mistake("cudaStreamPerThread wrapped", ({ gpu }) => {
  gpu.wrapStream(2n);
});

mistake("another device's stream wrapped", ({ peer, stream }) => {
  peer.wrapStream(stream.unsafeHandle);
});

mistake("a stream wrapped that its owner has destroyed", ({ gpu, stream }) => {
  const { unsafeHandle } = stream;
  stream[Symbol.dispose]();
  gpu.wrapStream(unsafeHandle);
});

mistake("a benchmark of a launch that was made", async ({ stream, saxpy, x, y }) => {
  await stream.benchmark(saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, x, y));
});

mistake("a benchmark of an async function", async ({ stream, x }) => {
  await stream.benchmark(async () => {
    x.fill(1, stream);
    await stream.finished();
  });
});

mistake("a benchmark with Triton's options", async ({ stream, x }) => {
  await stream.benchmark((stream) => x.fill(1, stream), { warmup: 25, rep: 100 });
});

mistake("a benchmark of no runs", async ({ stream, x }) => {
  await stream.benchmark((stream) => x.fill(1, stream), { repetitions: 0 });
});

mistake("a benchmark with the number of runs alone", async ({ stream, x }) => {
  await stream.benchmark((stream) => x.fill(1, stream), 100);
});
