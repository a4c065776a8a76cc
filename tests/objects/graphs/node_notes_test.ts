/** Tests of what the library knows of the nodes of a graph that it has captured. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { ptx } from "../../../kernels/saxpy.ts";
import { notesOf } from "../../../src/objects/graphs/cuda_graph.ts";
import { testOnEachDriver } from "../../support/drivers.ts";

testOnEachDriver("every node of a capture is noted with what it runs, once", (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using other = gpu.createStream();
  using pool = gpu.createPool();
  using host = cuda.allocateHost(256);
  using x = pool.allocateArray(Float32Array, 64, stream);
  using y = pool.allocateArray(Float32Array, 64, stream);
  using words = pool.allocateArray(BigInt64Array, 64, stream);
  const saxpy = gpu.loadModule(ptx).kernel("saxpy");
  using graph = stream.capture(() => {
    other.wait(stream);
    x.copyFrom(host, stream);
    y.copyFrom(x, other);
    words.fill(1n << 40n, other);
    stream.wait(other);
    saxpy.launch({ grid: 2, block: 32, stream }, 64, 2.5, x.subarray(4), y);
    using scratch = pool.allocate(512, stream);
    scratch.fill(7, stream);
    y.copyTo(host, stream);
  });
  saxpy.launch({ grid: 1, block: 32, stream }, 64, 1, y, y);
  const notes = notesOf(graph);
  assertEquals(
    graph.nodes.map(({ unsafeHandle }) => notes.get(unsafeHandle)?.kind),
    graph.nodes.map(({ type }) => type),
  );
  const node = graph.nodes.find(({ type }) => type === "kernel")!;
  assertStrictEquals(node.kernel, saxpy);
  assertEquals(graph.nodes.filter(({ kernel }) => kernel !== undefined), [node]);
  const note = notes.get(node.unsafeHandle)!;
  if (note.kind !== "kernel") throw new Error("not a kernel");
  const { launch, addresses } = note;
  assertEquals([launch.gridX, launch.blockX, launch.parameters.getFloat32(4, true)], [2, 32, 2.5]);
  assertEquals(addresses.map(({ index, address, byteLength }) => [index, address, byteLength]), [
    [2, x.address + 16n, 240],
    [3, y.address, 256],
  ]);
  using plain = stream.capture(() => saxpy.launch({ grid: 1, block: 32, stream }, 64, 1, x, y));
  using clone = plain.clone();
  assertStrictEquals(clone.nodes[0]!.kernel, saxpy);
});
