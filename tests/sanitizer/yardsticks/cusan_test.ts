/**
 * The programs that cuSan is tested with (`test/runtime` of its repository), with the same verdicts: each as it stands
 * there, where it is wrong, and with what makes it right. Written anew from reading them.
 *
 * cuSan's programs read managed memory by the host. Here, a stream that comes after what the host has waited for, and
 * after nothing else, reads in its place. Those with MPI are as those without, because a message reads its buffer when
 * it is sent.
 */
import { assertEquals } from "@std/assert";
import type { CudaStream } from "../../../mod.ts";
import { test } from "../../support/test.ts";
import { reportsOf, type StreamProgram } from "./stream_programs.ts";

interface Pair {
  readonly name: string;
  /** Whether the program without the step that orders it is wrong. */
  readonly isWrong: boolean;
  run(program: StreamProgram, isOrdered: boolean): void | Promise<void>;
}

/** A kernel of another buffer on a stream. */
function otherWork(p: StreamProgram, stream: CudaStream): void {
  p.write(stream, 1);
}

const pairs: readonly Pair[] = [
  {
    name: "02_event, 31_tsan_cuda_event",
    isWrong: true,
    run(p, isOrdered) {
      p.write(p.gpu.defaultStream, 0);
      p.record(0, p.gpu.defaultStream);
      if (isOrdered) p.event(0).synchronize();
      p.readByHost(0);
    },
  },
  {
    name: "03_cuda_to_mpi, 05_cuda_to_mpi_stream, 29_tsan_cuda_to_mpi",
    isWrong: true,
    run(p, isOrdered) {
      p.write(p.blockingStream(0), 0);
      if (isOrdered) p.blockingStream(0).synchronize();
      p.readByHost(0);
    },
  },
  {
    name: "03_cuda_to_mpi by a synchronization of the device",
    isWrong: true,
    run(p, isOrdered) {
      p.write(p.stream(0), 0);
      if (isOrdered) p.gpu.synchronize();
      p.readByHost(0);
    },
  },
  {
    name: "06_cuda_to_mpi_event",
    isWrong: true,
    async run(p, isOrdered) {
      p.write(p.stream(0), 0);
      p.record(0, p.stream(0));
      if (isOrdered) await p.event(0).finished();
      p.readByHost(0);
    },
  },
  {
    name: "07_cuda_to_mpi_read: both only read",
    isWrong: false,
    run(p) {
      p.read(p.stream(0), 0);
      p.readByHost(0);
    },
  },
  {
    name: "08_cudamemcpy_to_mpi: a copy to pageable memory is done when it returns",
    isWrong: false,
    async run(p) {
      p.write(p.stream(0), 0);
      await p.buffer(0).read(Uint8Array, { stream: p.stream(0) });
      p.readByHost(0);
    },
  },
  {
    name: "15_cuda_memset_sync: the default stream waits for blocking streams",
    isWrong: true,
    run(p, isOrdered) {
      p.write(p.blockingStream(0), 0);
      if (isOrdered) {
        otherWork(p, p.gpu.defaultStream);
        p.gpu.defaultStream.synchronize();
      }
      p.readByHost(0);
    },
  },
  {
    name: "15_cuda_memset_sync_nonblocking: and for no others",
    isWrong: true,
    run(p, isOrdered) {
      p.write(p.stream(0), 0);
      otherWork(p, p.gpu.defaultStream);
      if (isOrdered) p.stream(0).synchronize();
      p.gpu.defaultStream.synchronize();
      p.readByHost(0);
    },
  },
  {
    name: "17_cuda_stream_query_busy_loop",
    isWrong: true,
    async run(p, isOrdered) {
      p.write(p.stream(0), 0);
      while (isOrdered && !p.stream(0).query()) await new Promise((resolve) => setTimeout(resolve));
      p.readByHost(0);
    },
  },
  {
    name: "18_cuda_event_query_busy_loop, 18_cuda_event_with_flags_query_busy_loop",
    isWrong: true,
    async run(p, isOrdered) {
      p.write(p.stream(0), 0);
      p.record(0, p.stream(0));
      while (isOrdered && !p.event(0).query()) await new Promise((resolve) => setTimeout(resolve));
      p.readByHost(0);
    },
  },
  {
    name: "20_cuda_default_stream_sync",
    isWrong: true,
    run(p, isOrdered) {
      p.write(p.blockingStream(0), 0);
      otherWork(p, p.gpu.defaultStream);
      if (isOrdered) p.gpu.defaultStream.synchronize();
      p.readByHost(0);
    },
  },
  {
    name: "21_chunked_streams_example",
    isWrong: false,
    run(p) {
      p.write(p.stream(9), 0);
      p.stream(9).synchronize();
      const chunk = 256;
      const copies = Array.from({ length: 4 }, (_, index) => {
        const copy = p.pool.allocate(chunk, p.stream(index));
        copy.copyFrom(p.buffer(0).subarray(index * chunk, (index + 1) * chunk), p.stream(index));
        return copy;
      });
      copies.forEach((copy, index) => {
        p.stream(index).synchronize();
        copy.free(p.stream(index));
      });
    },
  },
  {
    name: "22_cuda_to_mpi_partial_buff_write: the parts do not overlap",
    isWrong: false,
    run(p) {
      const buffer = p.buffer(0);
      buffer.subarray(0, 512).fill(1, p.stream(0));
      p.stream(0).synchronize();
      buffer.subarray(512, 1024).fill(2, p.stream(0));
      const copy = p.pool.allocate(512, p.stream(1));
      copy.copyFrom(buffer.subarray(0, 512), p.stream(1));
      copy.free(p.stream(1));
    },
  },
  {
    name: "23_cuda_default_stream_post_sync: a blocking stream comes after the default stream",
    isWrong: true,
    run(p, isOrdered) {
      p.write(p.gpu.defaultStream, 0);
      otherWork(p, p.blockingStream(0));
      if (isOrdered) p.blockingStream(0).synchronize();
      p.readByHost(0);
    },
  },
  {
    name: "23_cuda_default_stream_post_sync_nonblocking: another one does not",
    isWrong: true,
    run(p, isOrdered) {
      p.write(p.gpu.defaultStream, 0);
      otherWork(p, p.stream(0));
      p.stream(0).synchronize();
      if (isOrdered) p.gpu.synchronize();
      p.readByHost(0);
    },
  },
  {
    name: "24_cuda_sync_stream_default_nonblocking",
    isWrong: true,
    run(p, isOrdered) {
      p.write(isOrdered ? p.blockingStream(0) : p.stream(0), 0);
      p.gpu.defaultStream.synchronize();
      p.readByHost(0);
    },
  },
  {
    name: "25_cuda_default_stream_double_sync: one stream waits for another by the default stream",
    isWrong: true,
    run(p, isOrdered) {
      p.write(p.blockingStream(0), 0);
      otherWork(p, p.gpu.defaultStream);
      otherWork(p, p.blockingStream(1));
      if (isOrdered) p.blockingStream(1).synchronize();
      p.readByHost(0);
    },
  },
  {
    name: "28_cuda_memset2d_implicit_syn: a fill does not wait for a stream that is not the default one",
    isWrong: true,
    run(p, isOrdered) {
      p.write(p.stream(0), 0);
      if (isOrdered) p.stream(0).synchronize();
      otherWork(p, p.gpu.defaultStream);
      p.readByHost(0);
    },
  },
  {
    name: "32_tsan_async_copy",
    isWrong: true,
    run(p, isOrdered) {
      p.write(p.stream(1), 0);
      if (isOrdered) p.stream(1).synchronize();
      p.read(p.stream(2), 0);
      p.stream(2).synchronize();
    },
  },
  {
    name: "33_tsan_wait_event",
    isWrong: true,
    run(p, isOrdered) {
      p.write(p.stream(1), 0);
      p.record(0, p.stream(1));
      if (isOrdered) p.wait(0, p.stream(2));
      p.read(p.stream(2), 0);
      p.stream(2).synchronize();
    },
  },
];

for (const { name, isWrong, run } of pairs) {
  test(`cuSan's ${name}: told as there`, async () => {
    assertEquals((await reportsOf((p) => run(p, true))).map(({ message }) => message), []);
    const reports = await reportsOf((p) => run(p, false));
    assertEquals(reports.map(({ kind }) => kind), isWrong ? ["unordered-write-read"] : []);
  });
}
