/**
 * Random programs that copy to and from page-locked memory, or registered memory, on several streams, all of it in order: the sanitizer is
 * silent, and changes no result.
 */
import { assertEquals } from "@std/assert";
import { ptx } from "../../kernels/fill.ts";
import { type CudaEvent, open } from "../../mod.ts";
import { Random } from "../differential/random.ts";
import { isLong, test } from "../support/test.ts";

const byteLength = 256;
const granule = 32;
const steps = 30;

/** Runs a program. Returns all bytes that it reads, and the kinds of its reports. */
function run(seed: number, sanitize: boolean): { readonly seen: number[]; readonly kinds: string[] } {
  const numbers = new Random(seed);
  const random = (limit: number) => numbers.below(limit);
  const kinds: string[] = [];
  const seen: number[] = [];
  using cuda = open({ driver: "software", sanitize, onReport: ({ kind }) => kinds.push(kind) });
  const gpu = cuda.device(0);
  using stack = new DisposableStack();
  const streams = [0, 1, 2].map(() => gpu.createStream({ nonBlocking: true }));
  const buffers = [0, 1].map(() => stack.use(gpu.allocate(byteLength)));
  const memory = new SharedArrayBuffer(4096);
  const hosts = [
    cuda.allocateHost(byteLength),
    seed % 2 === 0 ? cuda.allocateHost(byteLength) : cuda.registerHost(memory),
  ];
  for (const host of hosts) stack.use(host);
  const kernel = gpu.loadModule(ptx).kernel("fill");
  for (const buffer of buffers) buffer.fill(9);
  for (const { buffer } of hosts) new Uint8Array(buffer).fill(1);
  gpu.synchronize();
  let last: CudaEvent | undefined;
  for (let step = 0; step < steps; step++) {
    const stream = streams[random(3)]!, buffer = buffers[random(2)]!, host = hosts[random(2)]!;
    const begin = granule * random(7), end = begin + granule * (1 + random(7 - begin / granule));
    if (last !== undefined) stream.wait(last);
    const actions = [
      () => buffer.subarray(begin, end).copyTo(host, stream),
      () => buffer.subarray(begin, end).copyFrom(new Uint8Array(host.buffer, byteLength - end, end - begin), stream),
      () => buffer.subarray(begin, end).fill(random(256), stream),
      () => {
        const target = seed % 3 === 0 && random(2) === 0 ? host : buffer;
        kernel.launch({ grid: 1, block: 64, stream }, target, byteLength / 4, random(2 ** 30));
      },
      () => {
        stream.synchronize();
        new Uint8Array(host.buffer).fill(random(256), begin, end);
      },
      () => {
        stream.synchronize();
        seen.push(...new Uint8Array(host.buffer, 0, byteLength));
      },
      () => buffers[0]!.copyFrom(buffers[1]!, stream),
    ];
    actions[random(actions.length)]!();
    stream.record(last = gpu.createEvent());
  }
  gpu.synchronize();
  for (const buffer of buffers) seen.push(...buffer.readSync(Uint8Array));
  for (const { buffer } of hosts) seen.push(...new Uint8Array(buffer, 0, byteLength));
  return { seen, kinds };
}

test("programs that order all work on page-locked memory are silent, and have the same results", () => {
  for (let seed = 1; seed <= (isLong ? 1000 : 12); seed++) {
    const { seen, kinds } = run(seed, true);
    assertEquals([kinds, seen], [[], run(seed, false).seen], `seed ${seed}`);
  }
});
