import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { CudaArray } from "../../../mod.ts";
import { testOnEachDriver } from "../../support/drivers.ts";
import { readPtx } from "./texture_kernels.ts";

const ramp = (length: number) => Float32Array.from({ length }, (_, index) => index);

testOnEachDriver("arrays are copied from and to memory of every kind", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using array = gpu.createArray("f32", [6, 4]);
  array.stream = stream;
  array.copyFrom(ramp(24));
  assertEquals(await array.read(Float32Array), ramp(24));

  using buffer = pool.allocateArray(Float32Array, 24, stream);
  array.copyTo(buffer);
  assertEquals(await buffer.toTypedArray({ stream }), ramp(24));
  buffer.fill(7, { stream });
  array.copyFrom(buffer, { origin: [0, 0] });
  assertEquals(await array.read(Float32Array), new Float32Array(24).fill(7));

  // A region of rows, to a part of the array.
  using rows = pool.allocatePitched(Float32Array, [8, 8], stream);
  rows.copyFrom(ramp(64), stream);
  array.copyFrom(rows.region([2, 3], [3, 2]), { stream, origin: [1, 2] });
  const expected = new Float32Array(24).fill(7);
  expected.set([26, 27, 28], 13);
  expected.set([34, 35, 36], 19);
  assertEquals(await array.read(Float32Array), expected);
  array.copyTo(rows.region([0, 0], [6, 4]));
  assertEquals(await rows.region([0, 0], [6, 4]).read(stream), expected);

  using other = gpu.createArray("f32", [7, 5]);
  other.copyFrom(ramp(35), stream);
  other.copyFrom(array, { stream, origin: [1, 1] });
  const whole = await other.read(Float32Array, stream);
  assertEquals([whole[7], whole[8], whole[14 + 7 + 2], whole[34]], [7, 7, 26, expected[23]!]);

  const part = rows.region([1, 1], [6, 4]);
  part.copyFrom(array, { stream });
  assertEquals(await part.read(stream), expected);
  part.fill(3, stream);
  part.copyTo(array);
  assertEquals(await array.read(Float32Array, stream), new Float32Array(24).fill(3));
  assertThrows(() => rows.copyFrom(array), RangeError, "give rows of 6 x 4 elements");
  array.copyFrom(expected);

  using host = cuda.allocateHost(96);
  const inHost = host.pitched(Float32Array, [6, 4]);
  inHost.copyFrom(array);
  await stream.finished();
  assertEquals(await inHost.read(stream), expected);
  array.copyTo(host, stream);
  await stream.finished();
  assertEquals(new Float32Array(host.buffer, host.byteOffset, 24), expected);
});

testOnEachDriver("arrays of three dimensions and of layers keep the order of their elements", async (cuda) => {
  const gpu = cuda.device(0);
  using volume = gpu.createArray("u8", [5, 3, 4], { channels: 2 });
  const bytes = Uint8Array.from({ length: 120 }, (_, index) => index);
  volume.copyFrom(bytes);
  assertEquals(await volume.read(Uint8Array), bytes);
  using layers = gpu.createArray("f16", [5, 3], { layered: true });
  const halves = Uint16Array.from({ length: 15 }, (_, index) => index);
  layers.copyFrom(halves);
  assertEquals([layers.width, layers.height, layers.depth], [5, 1, 3]);
  layers.copyFrom(new Uint16Array(5).fill(9), { origin: [0, 0, 2] });
  assertEquals((await layers.read(Uint16Array)).slice(8), Uint16Array.of(8, 9, 9, 9, 9, 9, 9));
});

testOnEachDriver("a graph keeps the textures and arrays that its work uses", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using module = gpu.loadModule(readPtx([{ name: "read", geometry: "2d" }]));
  using results = pool.allocateArray(Uint32Array, 4, stream);
  using operands = pool.allocateArray(new Float32Array(12), { stream });
  const array = gpu.createArray("f32", [4, 4]);
  const texture = gpu.createTexture(array);
  using graph = stream.capture(() => {
    array.copyFrom(ramp(16).fill(5), stream);
    module.kernel("read").launch({ grid: 1, block: 1, stream }, results, texture, operands, 1);
  });
  using exec = graph.instantiate();
  texture[Symbol.dispose]();
  array[Symbol.dispose]();
  exec.launch(stream);
  exec.launch(stream);
  const words = await results.toTypedArray({ stream });
  assertEquals(new Float32Array(words.buffer)[0], 5);
  // The same by hand.
  using other = gpu.createArray("f32", [4, 4]);
  other.copyFrom(ramp(16).fill(6), stream);
  using byHand = gpu.createTexture(other);
  using built = gpu.createGraph();
  built.addKernel(module.kernel("read"), { grid: 1, block: 1 }, results, byHand, operands, 1);
  using execByHand = built.instantiate();
  execByHand.launch(stream);
  assertEquals(new Float32Array((await results.toTypedArray({ stream })).buffer)[0], 6);
});

testOnEachDriver("nodes of a graph copy arrays", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  const first = gpu.createArray("f32", [6, 4]), second = gpu.createArray("f32", [6, 4]);
  using buffer = pool.allocateArray(Float32Array, 24, stream);
  using rows = pool.allocatePitched(Float32Array, [6, 4], stream);
  using host = cuda.allocateHost(96);
  using graph = gpu.createGraph();
  const elements = ramp(24);
  let last = graph.addCopy(elements, first);
  elements.fill(-1);
  const chain = [[first, second], [second, rows], [rows, first], [first, buffer], [buffer, second], [second, host]];
  for (const [source, target] of chain) last = graph.addCopy(source!, target!, { dependencies: [last] });
  assertEquals(last.type, "copy");
  using exec = graph.instantiate();
  // The graph keeps what it copies.
  first[Symbol.dispose]();
  second[Symbol.dispose]();
  for (let launch = 0; launch < 2; launch++) {
    new Float32Array(host.buffer, host.byteOffset, 24).fill(0);
    exec.launch(stream);
    await stream.finished();
    assertEquals(new Float32Array(host.buffer, host.byteOffset, 24), ramp(24));
  }
  assertEquals(await rows.read(stream), ramp(24));
  assertThrows(() => graph.addCopy(first, buffer), ReferenceError, "it was disposed");
  using small = gpu.createArray("f32", [5, 4]);
  assertThrows(() => graph.addCopy(buffer, small), RangeError, "Cannot copy 96 bytes: the array has 80");
  assertThrows(() => graph.addCopy(new Int8Array(80), small), TypeError);
});

testOnEachDriver("a batch copies arrays", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using first = gpu.createArray("f32", [6, 4]);
  using second = gpu.createArray("f32", [6, 4]);
  using third = gpu.createArray("f32", [6, 4]);
  using rows = pool.allocatePitched(Float32Array, [6, 4], stream);
  using buffer = pool.allocateArray(Float32Array, 24, stream);
  using target = pool.allocateArray(Float32Array, 24, stream);
  const batch = [
    { source: first, target: second },
    { source: rows, target: third },
    { source: buffer, target },
  ];
  const fill = (add: number) => {
    for (const [memory, from] of [[first, 0], [rows, 100], [buffer, 200]] as const) {
      memory.copyFrom(ramp(24).map((value) => value + from + add), stream);
    }
  };
  const copied = async () =>
    [
      ...(await Promise.all([second, third].map((array) => array.read(Float32Array, stream)))),
      await target.toTypedArray({ stream }),
    ].map((elements) => elements[23]);
  fill(0);
  stream.copyBatch(batch);
  assertEquals(await copied(), [23, 123, 223]);
  using graph = stream.capture(() => stream.copyBatch(batch));
  using exec = graph.instantiate();
  assertEquals(graph.nodes.length, 3);
  fill(1000);
  exec.launch(stream);
  assertEquals(await copied(), [1023, 1123, 1223]);
  const wrong = (copies: Parameters<typeof stream.copyBatch>[0]) => () => stream.copyBatch(copies);
  assertThrows(wrong([{ source: first, target: first }]), RangeError, "have bytes in common");
  assertThrows(
    wrong([{ source: first, target: second }, { source: second, target }]),
    RangeError,
    "copy 1 reads what copy 0 writes",
  );
  using small = gpu.createArray("f32", [5, 4]);
  assertThrows(wrong([{ source: buffer, target: small }]), RangeError, "Cannot copy 96 bytes: the array has 80");
});

testOnEachDriver("what arrays and textures cannot be is refused before the driver", (cuda) => {
  const gpu = cuda.device(0);
  const refused = (action: () => unknown, message: string) => assertThrows(action, Error, message);
  refused(() => gpu.createArray("f64" as "f32", [4]), 'of the format "f64": give one of u8');
  refused(() => gpu.createArray("f32", [4, 0]), "whole numbers, at least 1");
  refused(() => gpu.createArray("u8", [4], { channels: 3 as 4 }), "leave one of 4 unused");
  refused(() => gpu.createArray("u8", [4], { layered: true }), "their number is the last extent");
  refused(() => gpu.createArray("u8", [4, 5], { cubemap: true }), "its faces are square");
  refused(() => gpu.createArray("u8", [4, 4, 4], { gather: true }), "give two dimensions");
  using array = gpu.createArray("u8", [4, 4]);
  refused(() => array.copyFrom(new Uint8Array(15)), "Cannot copy 15 bytes: the array has 16");
  refused(() => array.copyFrom(new Float32Array(4)), 'the array has the format "u8"; use a Uint8Array');
  refused(() => array.copyFrom(new Uint8Array(4), { origin: [0, 4] }), "to (0, 4, 0) of an array: it has 4 x 4");
  refused(() => gpu.createTexture(array, { filterMode: "linear" }), 'set readMode: "normalized-float"');
  refused(() => gpu.createTexture(array, { addressMode: "wrap" }), "set normalizedCoordinates: true");
  refused(() => gpu.createTexture(array, { filterMode: "bilinear" as "linear" }), 'give "point" or "linear"');
  refused(() => gpu.createTexture(array, { normalizedCoords: true } as object), "use normalizedCoordinates");
  refused(() => gpu.createTexture({} as CudaArray), "give a CudaArray, rows of a DeviceBuffer, or a DeviceArray");
});

testOnEachDriver("a texture ends with its array", async (cuda) => {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using module = gpu.loadModule(readPtx([{ name: "read", geometry: "2d" }]));
  using results = pool.allocateArray(Uint32Array, 4, stream);
  using operands = pool.allocateArray(Float32Array, 12, stream);
  operands.fill(0);
  const array = gpu.createArray("f32", [4, 4]);
  array.copyFrom(ramp(16).fill(3), stream);
  using texture = gpu.createTexture(array);
  const launch = () => module.kernel("read").launch({ grid: 1, block: 1, stream }, results, texture, operands, 1);
  launch();
  // The kernel that is enqueued still finds both.
  array[Symbol.dispose]();
  assertThrows(launch, ReferenceError, "the array that it reads was disposed");
  assertThrows(() => array.copyFrom(ramp(16)), ReferenceError, "it was disposed");
  await assertRejects(() => array.read(Float32Array), ReferenceError, "it was disposed");
  const words = await results.toTypedArray({ stream });
  assertEquals(new Float32Array(words.buffer)[0], 3);
  assert(String(texture).includes("disposed"));
}, { makesMistakes: true });
