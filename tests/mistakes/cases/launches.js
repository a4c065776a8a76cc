import * as poolpass from "../../../mod.ts";
import { open } from "../../../mod.ts";
import { area, mistake } from "../mistake.ts";

area("Launches", import.meta.url);

mistake("grid and block without an object", ({ saxpy, x, y }) => {
  saxpy.launch(4, 256, 1024, 2.5, x, y);
});

mistake("options forgotten", ({ saxpy, x, y }) => {
  saxpy.launch(1024, 2.5, x, y);
});

mistake("options forgotten, an array first", ({ userModule, x }) => {
  userModule.kernel("scale").launch(x, 2, 1023);
});

mistake("launch with CuPy's tuples", ({ saxpy, x, y }) => {
  saxpy.launch([4], [256], [1024, 2.5, x, y]);
});

mistake("options last", ({ saxpy, x, y, stream }) => {
  saxpy.launch(1024, 2.5, x, y, { grid: 4, block: 256, stream });
});

mistake("no arguments at all", ({ saxpy }) => {
  saxpy.launch();
});

mistake("a misspelt stream", ({ saxpy, x, y, stream }) => {
  saxpy.launch({ grid: 4, block: 256, strem: stream }, 1024, 2.5, x, y);
});

mistake("gridDim and blockDim", ({ saxpy, x, y, stream }) => {
  saxpy.launch({ gridDim: 4, blockDim: 256, stream }, 1024, 2.5, x, y);
});

mistake("no block", ({ saxpy, x, y, stream }) => {
  saxpy.launch({ grid: 4, stream }, 1024, 2.5, x, y);
});

mistake("shared memory under CUDA's name", ({ userModule, x, y, stream }) => {
  const blockSums = userModule.kernel("block_sums");
  blockSums.launch({ grid: 4, block: 256, stream, sharedMemBytes: 1024 }, x, y, 1024);
});

mistake("the arguments among the options", ({ saxpy, x, y, stream }) => {
  saxpy.launch({ grid: 4, block: 256, stream, args: [1024, 2.5, x, y] });
});

mistake("a grid as a string", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: "4", block: 256 }, 1024, 2.5, x, y);
});

mistake("a grid as dim3", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: { x: 4, y: 1, z: 1 }, block: 256 }, 1024, 2.5, x, y);
});

mistake("a grid of four dimensions", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: [4, 1, 1, 1], block: 256 }, 1024, 2.5, x, y);
});

mistake("an empty grid", ({ saxpy, x, y }) => {
  const n = 0;
  saxpy.launch({ grid: Math.ceil(n / 256), block: 256 }, n, 2.5, x, y);
});

mistake("a fractional grid", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 1000 / 256, block: 256 }, 1000, 2.5, x, y);
});

mistake("too many blocks in y", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: [1, 100_000], block: 256 }, 1024, 2.5, x, y);
});

mistake("2048 threads in a block", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 1, block: 2048 }, 1024, 2.5, x, y);
});

mistake("a megabyte of shared memory", ({ userModule, x, y }) => {
  const blockSums = userModule.kernel("block_sums");
  blockSums.launch({ grid: 4, block: 256, sharedMemoryBytes: 2 ** 20 }, x, y, 1024);
});

mistake("stream 0", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256, stream: 0 }, 1024, 2.5, x, y);
});

mistake("createStream not called", ({ gpu, saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256, stream: gpu.createStream }, 1024, 2.5, x, y);
});

mistake("a stream of another device", ({ saxpy, x, y, peer }) => {
  saxpy.launch({ grid: 4, block: 256, stream: peer.createStream() }, 1024, 2.5, x, y);
});

mistake("a stream of another open()", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256, stream: open().device(0).createStream() }, 1024, 2.5, x, y);
});

mistake("an argument too few", ({ saxpy, x }) => {
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, x);
});

mistake("an argument too many", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, x, y, 1);
});

mistake("the arguments in an array", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, [1024, 2.5, x, y]);
});

mistake("the arguments in another order", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, x, y, 2.5, 1024);
});

mistake("n and a exchanged", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, 2.5, 1024, x, y);
});

mistake("-1 for an unsigned parameter", async ({ saxpy, x, y, stream }) => {
  saxpy.launch({ grid: 4, block: 256, stream }, -1, 2.5, x, y);
  await stream.finished();
});

mistake("-1 for a parameter that is given as unsigned", ({ module, x, y, stream }) => {
  const saxpy = module.kernel("saxpy", { parameters: ["u32", "f32", "u64", "u64"] });
  saxpy.launch({ grid: 4, block: 256, stream }, -1, 2.5, x, y);
});

mistake("a fraction for an integer", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, 1024 / 3, 2.5, x, y);
});

mistake("undefined for a float", ({ saxpy, x, y }) => {
  const options = { scale: 2.5 };
  saxpy.launch({ grid: 4, block: 256 }, 1024, options.factor, x, y);
});

mistake("a string for an integer", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, "1024", 2.5, x, y);
});

mistake("a bigint for a float", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2n, x, y);
});

mistake("more than fits 32 bits", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, 2 ** 32, 2.5, x, y);
});

mistake("300 for a signed char", ({ userModule, x }) => {
  userModule.kernel("types").launch({ grid: 1, block: 1 }, 300, 1, 1, true, 1, x);
});

mistake("an inexact 64-bit integer", ({ userModule, x }) => {
  userModule.kernel("types").launch({ grid: 1, block: 1 }, 1, 1, 2 ** 60 + 1, true, 1, x);
});

mistake("a number for a pointer", async ({ saxpy, y, stream }) => {
  saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, 1024, y);
  await stream.finished();
});

mistake("undefined for a pointer", ({ saxpy, x }) => {
  const arrays = { x };
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, arrays.x, arrays.y);
});

mistake("a host array for a pointer", ({ saxpy, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, new Float32Array(1024), y);
});

mistake("a plain array for a pointer", ({ saxpy, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, 4, 2.5, [1, 2, 3, 4], y);
});

mistake("a promise for a pointer", ({ saxpy, pool, y }) => {
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, pool.allocateAsync(4096), y);
});

mistake("a buffer that was freed", ({ saxpy, x, y }) => {
  x.free();
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, x, y);
});

mistake("a buffer of another open()", ({ saxpy, y }) => {
  const gpu = open().device(0);
  const x = gpu.createPool().allocateArray(Float32Array, 1024, gpu.createStream());
  saxpy.launch({ grid: 4, block: 256 }, 1024, 2.5, x, y);
});

mistake("a struct as floats", async ({ userModule, pool, stream }) => {
  const out = pool.allocateArray(Int32Array, 256, stream);
  const view = new Float32Array([-0.5, 0, 1, 50]); // { float cx, cy, scale; int limit; }
  userModule.kernel("escape_time").launch({ grid: 1, block: 256, stream }, view, out, 256);
  await stream.finished();
});

mistake("a struct that is too short", ({ userModule, x }) => {
  userModule.kernel("escape_time").launch({ grid: 1, block: 256 }, new Float32Array(3), x, 256);
});

mistake("a struct as an object", ({ userModule, x }) => {
  const view = { cx: -0.5, cy: 0, scale: 1, limit: 50 };
  userModule.kernel("escape_time").launch({ grid: 1, block: 256 }, view, x, 256);
});

mistake("a struct as its fields", ({ userModule, x }) => {
  userModule.kernel("escape_time").launch({ grid: 1, block: 256 }, -0.5, 0, 1, 50, x, 256);
});

mistake("a struct as a plain array", ({ userModule, x }) => {
  userModule.kernel("escape_time").launch({ grid: 1, block: 256 }, [-0.5, 0, 1, 50], x, 256);
});

mistake("a struct with a type that C++ has", () => {
  poolpass.struct({ cx: "float", limit: "int" });
});

mistake("a struct with a misspelt field", ({ userModule, x }) => {
  const View = poolpass.struct({ cx: "f32", cy: "f32", scale: "f32", limit: "s32" });
  const view = View({ cx: -0.5, cy: 0, scale: 1, limti: 50 });
  userModule.kernel("escape_time").launch({ grid: 1, block: 256 }, view, x, 256);
});

mistake("a struct with a field too few", () => {
  const View = poolpass.struct({ cx: "f32", cy: "f32", scale: "f32", limit: "s32" });
  View({ cx: -0.5, cy: 0, scale: 1 });
});

mistake("a struct with another layout", ({ userModule, x }) => {
  const View = poolpass.struct({ cx: "f64", cy: "f64", scale: "f32", limit: "s32" });
  const view = View({ cx: -0.5, cy: 0, scale: 1, limit: 50 });
  userModule.kernel("escape_time").launch({ grid: 1, block: 256 }, view, x, 256);
});

mistake("a struct that was not called", ({ userModule, x }) => {
  const View = poolpass.struct({ cx: "f32", cy: "f32", scale: "f32", limit: "s32" });
  userModule.kernel("escape_time").launch({ grid: 1, block: 256 }, View, x, 256);
});

mistake("a kernel launched on another device", ({ saxpy, peer }) => {
  const stream = peer.createStream();
  const x = peer.createPool().allocateArray(Float32Array, 1024, stream);
  saxpy.launch({ grid: 4, block: 256, stream }, 1024, 2.5, x, x);
});

mistake("occupancy without a block size", ({ saxpy }) => {
  saxpy.maxActiveBlocksPerMultiprocessor();
});
