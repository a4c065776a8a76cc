import * as poolpass from "../../../mod.ts";
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

mistake("an argument that the graph does not have", ({ stream, saxpy, x, y }) => {
  const graph = stream.capture(({ arguments: { a } }) => {
    saxpy.launch({ grid: 4, block: 256, stream }, 1024, a, x, y);
  }, { arguments: { a: 2.5, x } });
  graph.instantiate().update({ alpha: 0.5 });
});

mistake("an argument whose value the launch got", ({ stream, saxpy, x, y }) => {
  const a = 2.5;
  const graph = stream.capture(() => {
    saxpy.launch({ grid: 4, block: 256, stream }, 1024, a, x, y);
  }, { arguments: { a } });
  graph.instantiate().update({ a: 0.5 });
});

mistake("an argument of another kind", ({ stream, saxpy, x, y }) => {
  const graph = stream.capture(({ arguments: { a } }) => {
    saxpy.launch({ grid: 4, block: 256, stream }, 1024, a, x, y);
  }, { arguments: { a: 2.5 } });
  graph.instantiate().update({ a: "0.5" });
});

mistake("a buffer that is too short for a graph", ({ pool, stream, saxpy, x, y }) => {
  const graph = stream.capture(() => saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, x, y), {
    arguments: { x, y },
  });
  const short = pool.allocateArray(Float32Array, 512, { stream });
  graph.instantiate().update({ x: short });
});

mistake("an array of another type for a graph", ({ pool, stream, saxpy, x, y }) => {
  const graph = stream.capture(() => saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, x, y), {
    arguments: { x, y },
  });
  const integers = pool.allocateArray(Int32Array, 1024, { stream });
  graph.instantiate().update({ x: integers });
});

mistake("a typed array as the argument of a graph", ({ stream }) => {
  stream.capture(() => {}, { arguments: { x: new Float32Array(1024) } });
});

mistake("arguments that overlap", ({ stream, x }) => {
  stream.capture(() => {}, { arguments: { x, tail: x.subarray(512) } });
});

mistake("an argument of a graph outside its capture", ({ stream, saxpy, x, y }) => {
  let kept;
  stream.capture(({ arguments: { a } }) => {
    kept = a;
    saxpy.launch({ grid: 4, block: 256, stream }, 1024, a, x, y);
  }, { arguments: { a: 2.5 } });
  saxpy.launch({ grid: 4, block: 256, stream }, 1024, kept, x, y);
});

mistake("an argument of a graph in a struct", ({ stream }) => {
  const View = poolpass.struct({ scale: "f32", limit: "s32" });
  stream.capture(({ arguments: { scale } }) => {
    View({ scale, limit: 4 });
  }, { arguments: { scale: 2.5 } });
});

mistake("an argument of a graph as a fill's value", ({ stream, x }) => {
  stream.capture(({ arguments: { value } }) => {
    x.fill(value, stream);
  }, { arguments: { value: 2.5 } });
});

mistake("arguments that are no object", ({ stream, x, y }) => {
  stream.capture(() => {}, { arguments: [x, y] });
});

mistake("an update by an array", ({ stream, x, y }) => {
  const graph = stream.capture(() => x.fill(1, stream), { arguments: { x } });
  graph.instantiate().update([y]);
});

mistake("parameters for another type of node", ({ stream, x, y }) => {
  const graph = stream.capture(() => x.fill(1, stream));
  graph.instantiate().setParameters(graph.nodes[0], { source: y });
});

mistake("arguments of a kernel node by their wrong name", ({ stream, saxpy, x, y }) => {
  const graph = stream.capture(() => saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, x, y));
  graph.instantiate().setParameters(graph.nodes[0], { arguments: [1024, 0.5, x, y] });
});

mistake("the index of a node", ({ stream, saxpy, x, y }) => {
  const graph = stream.capture(() => saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, x, y));
  graph.instantiate().setParameters(0, { grid: 8 });
});

mistake("an external record outside of a capture", ({ gpu, stream }) => {
  stream.record(gpu.createEvent(), { external: true });
});

mistake("an external wait for a stream", ({ gpu, stream }) => {
  const other = gpu.createStream();
  stream.capture(() => stream.wait(other, { external: true }));
});
