import { area, mistake } from "../mistake.ts";

area("Graphs", import.meta.url);

mistake("a capture of the default stream", ({ gpu }) => {
  gpu.defaultStream.capture(() => {});
});

mistake("a capture by an async function", ({ stream, x }) => {
  stream.capture(async () => {
    x.fill(1, stream);
    await stream.finished();
  });
});

mistake("a read in a capture", ({ stream, x }) => {
  stream.capture(() => {
    x.readSync(Float32Array, { stream });
  });
});

mistake("a wait in a capture", ({ stream, x }) => {
  stream.capture(() => {
    x.fill(1, stream);
    stream.synchronize();
  });
});

mistake("work on the default stream in a capture", ({ stream, saxpy, x, y }) => {
  stream.capture(() => {
    saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, x, y);
  });
});

mistake("a stream that is not joined", ({ gpu, stream, x }) => {
  const other = gpu.createStream();
  stream.capture(() => {
    other.wait(stream);
    x.fill(1, other);
  });
});

mistake("memory for other processes in a capture", ({ gpu, stream }) => {
  const pool = gpu.createPool({ handleType: "posix-fd" });
  stream.capture(() => {
    pool.allocate(1024, stream);
  });
});

mistake("a launch after memory was freed", ({ pool, stream }) => {
  const scratch = pool.allocate(1024, stream);
  const graph = stream.capture(() => scratch.fill(1, stream));
  const exec = graph.instantiate();
  scratch.free();
  exec.launch(stream);
});

mistake("a launch of a graph", ({ stream, x }) => {
  const graph = stream.capture(() => x.fill(1, stream));
  graph.launch(stream);
});
