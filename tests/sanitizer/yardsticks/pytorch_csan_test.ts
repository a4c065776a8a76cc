/**
 * The situations that PyTorch tests its CUDA sanitizer with (`test/test_cuda_sanitizer.py`, `TestEventHandler`), each
 * with the verdict that is expected there. Written anew from their descriptions.
 */
import { assertEquals } from "@std/assert";
import { test } from "../../support/test.ts";
import { reportsOf, type StreamProgram } from "./stream_programs.ts";

interface Situation {
  readonly name: string;
  /** How many accesses PyTorch's sanitizer reports. */
  readonly mistakes: number;
  run(program: StreamProgram): void;
}

const many = 10;

const situations: readonly Situation[] = [
  { name: "test_empty_kernel_launch", mistakes: 0, run: (p) => void p.stream(0) },
  {
    name: "test_simple_passing",
    mistakes: 0,
    run(p) {
      p.read(p.stream(1), 1);
      p.read(p.stream(2), 1);
    },
  },
  {
    name: "test_simple_error",
    mistakes: 1,
    run(p) {
      p.read(p.stream(1), 1);
      p.write(p.stream(2), 1);
    },
  },
  {
    name: "test_simple_sync",
    mistakes: 0,
    run(p) {
      p.read(p.stream(1), 1);
      p.record(0, p.stream(1));
      p.wait(0, p.stream(2));
      p.write(p.stream(2), 1);
    },
  },
  {
    name: "test_reads_check_last_write",
    mistakes: 1,
    run(p) {
      p.write(p.stream(1), 1);
      p.record(0, p.stream(1));
      p.wait(0, p.stream(2));
      p.read(p.stream(2), 1);
      p.read(p.stream(3), 1);
    },
  },
  {
    name: "test_branch_sync",
    mistakes: 1,
    run(p) {
      p.write(p.stream(1), 1);
      p.record(0, p.stream(1));
      p.wait(0, p.stream(2));
      p.wait(0, p.stream(3));
      p.read(p.stream(2), 1);
      p.read(p.stream(3), 1);
      p.write(p.stream(2), 1);
    },
  },
  {
    name: "test_chain_sync",
    mistakes: 0,
    run(p) {
      p.read(p.stream(0), 1);
      for (let number = 0; number < many; number++) {
        p.record(number, p.stream(number));
        p.wait(number, p.stream(number + 1));
      }
      p.write(p.stream(many), 1);
    },
  },
  {
    name: "test_expired_record",
    mistakes: 1,
    run(p) {
      p.read(p.stream(1), 1);
      p.record(0, p.stream(1));
      p.read(p.stream(1), 1);
      p.wait(0, p.stream(2));
      p.write(p.stream(2), 1);
    },
  },
  {
    // A wait for an event that was created anew waits for nothing, which is a mistake of its own here.
    name: "test_deleted_record",
    mistakes: 2,
    run(p) {
      p.read(p.stream(1), 1);
      p.record(0, p.stream(1));
      p.forgetEvent(0);
      p.wait(0, p.stream(2));
      p.write(p.stream(2), 1);
    },
  },
  { name: "test_all_reads_checked_failing", mistakes: 1, run: (p) => readAndWaitForAll(p, many - 1) },
  { name: "test_all_reads_checked_passing", mistakes: 0, run: (p) => readAndWaitForAll(p, many) },
  {
    name: "test_multiple_errors",
    mistakes: 3,
    run(p) {
      p.write(p.stream(0), 0);
      p.write(p.stream(0), 1);
      p.write(p.stream(0), 2);
      p.write(p.stream(1), 0);
      p.write(p.stream(1), 1);
      p.write(p.stream(1), 2);
    },
  },
  {
    name: "test_correct_state_merging",
    mistakes: 0,
    run(p) {
      for (const number of [1, 2]) p.write(p.stream(number), number);
      for (const number of [1, 2]) p.record(number, p.stream(number));
      for (const number of [1, 2]) p.write(p.stream(number), number);
      p.wait(1, p.stream(2));
      p.wait(2, p.stream(1));
      p.record(3, p.stream(2));
      p.wait(3, p.stream(1));
      p.write(p.stream(1), 1, 2);
    },
  },
  {
    name: "test_record_override",
    mistakes: 1,
    run(p) {
      p.read(p.stream(1), 1);
      p.read(p.stream(2), 2);
      p.record(1, p.stream(1));
      p.record(1, p.stream(2));
      p.wait(1, p.stream(3));
      p.write(p.stream(3), 1);
    },
  },
  {
    name: "test_multiple_wait",
    mistakes: 0,
    run(p) {
      p.write(p.stream(1), 1);
      p.record(1, p.stream(1));
      p.wait(1, p.stream(2));
      p.wait(1, p.stream(3));
      p.read(p.stream(2), 1);
      p.read(p.stream(3), 1);
    },
  },
];

/** Reads on many streams, and a write that waits for some of them. */
function readAndWaitForAll(p: StreamProgram, waits: number): void {
  for (let number = 1; number <= many; number++) {
    p.read(p.stream(number), 1);
    p.record(number, p.stream(number));
  }
  for (let number = 1; number <= waits; number++) p.wait(number, p.stream(0));
  p.write(p.stream(0), 1);
}

for (const { name, mistakes, run } of situations) {
  test(`PyTorch's ${name} is told as there`, async () => {
    const reports = await reportsOf(run);
    assertEquals(reports.length, mistakes, reports.map(({ message }) => message).join("\n"));
  });
}
