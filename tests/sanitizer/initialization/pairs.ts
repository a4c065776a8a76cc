/**
 * Programs that read memory or variables which nothing has written, each beside one that has written them first.
 *
 * @module
 */
import type { CudaDevice, CudaStream, DeviceBuffer, KernelArgument, MemoryPool } from "../../../mod.ts";

/** What a program works with. */
export interface Context {
  readonly gpu: CudaDevice;
  readonly pool: MemoryPool;
  readonly stream: CudaStream;
  /** Memory of 4 KiB that nothing has written, and memory whose results nobody reads, filled with zeros. */
  readonly x: DeviceBuffer;
  readonly out: DeviceBuffer;
  /** Launches a kernel with 32 threads. */
  run(kernel: string, ...args: KernelArgument[]): void;
  runWith(
    options: { grid?: number; block?: number; sharedMemoryBytes?: number },
    kernel: string,
    ...args: KernelArgument[]
  ): void;
}

type Program = (context: Context) => void;

/** Two programs that differ in one thing. */
export interface Pair {
  readonly name: string;
  readonly right: Program;
  readonly wrong: Program;
  /** The kind of the report. */
  readonly kind: string;
  /** Part of the line in kernels.cu that decides by what it has read. */
  readonly decidesAt: string;
}

const branch = "uninitialized-branch", address = "uninitialized-address", atomic = "uninitialized-atomic";

/** A kernel that takes memory, without and with a fill before it. */
function filling(
  name: string,
  kernel: string,
  [kind, decidesAt]: readonly [string, string],
  ...more: KernelArgument[]
): Pair {
  const wrong: Program = ({ run, x, out }) => run(kernel, x, out, ...more);
  const right: Program = (context) => {
    context.x.fill(0, context.stream);
    wrong(context);
  };
  return { name, right, wrong, kind, decidesAt };
}

/** A kernel that is right with some arguments and wrong with others. */
function arguing(
  name: string,
  kernel: string,
  { kind = branch, decidesAt, right, wrong, prepare = () => {}, takesX = true }: {
    kind?: string;
    decidesAt: string;
    right: readonly KernelArgument[];
    wrong: readonly KernelArgument[];
    prepare?: Program;
    takesX?: boolean;
  },
): Pair {
  const program = (args: readonly KernelArgument[]): Program => (context) => {
    prepare(context);
    context.run(kernel, ...takesX ? [context.x] : [], context.out, ...args);
  };
  return { name, right: program(right), wrong: program(wrong), kind, decidesAt };
}

const part = (buffer: DeviceBuffer, begin: number, end: number) => buffer.subarray(begin, end);

/** All of them. */
export const pairs: readonly Pair[] = [
  filling("a branch on memory that was not filled", "branches", [branch, "if (x[i] > 3) out[i] = 1"]),
  filling("an index that was not filled", "scatters", [address, "out[x[threadIdx.x] & 31] = 1"]),
  filling("an index of which only some bits count", "masks", [address, "out[x[threadIdx.x] & mask] = 1"], 7),
  arguing("an index of which no bits count", "masks", {
    kind: address,
    decidesAt: "out[x[threadIdx.x] & mask] = 1",
    right: [0],
    wrong: [8],
  }),
  arguing("fewer elements than are read", "branchesOnFirst", {
    decidesAt: "if (i < n && x[i] > 3)",
    prepare: ({ x, stream }) => part(x, 0, 40).fill(0, stream),
    right: [10],
    wrong: [11],
  }),
  {
    name: "a copy of memory that was not filled",
    wrong({ pool, stream, x, out, run }) {
      using copy = pool.allocate(x.byteLength, stream);
      copy.copyFrom(x, stream);
      run("branches", copy, out);
    },
    right({ pool, stream, x, out, run }) {
      using copy = pool.allocate(x.byteLength, stream);
      x.fill(1, stream);
      copy.copyFrom(x, stream);
      run("branches", copy, out);
    },
    kind: branch,
    decidesAt: "if (x[i] > 3) out[i] = 1",
  },
  {
    name: "a copy from the host that is too short",
    wrong({ x, stream, out, run }) {
      x.copyFrom(new Int32Array(31), stream);
      run("branches", x, out);
    },
    right({ x, stream, out, run }) {
      x.copyFrom(new Int32Array(32), stream);
      run("branches", x, out);
    },
    kind: branch,
    decidesAt: "if (x[i] > 3) out[i] = 1",
  },
  {
    name: "memory that was freed and is allocated again",
    wrong({ pool, stream, out, run }) {
      const before = pool.allocate(65536, stream);
      before.fill(0, stream);
      before.free(stream);
      using after = pool.allocate(65536, stream);
      run("branches", after, out);
    },
    right({ pool, stream, out, run }) {
      const before = pool.allocate(65536, stream);
      before.free(stream);
      using after = pool.allocate(65536, stream);
      after.fill(0, stream);
      run("branches", after, out);
    },
    kind: branch,
    decidesAt: "if (x[i] > 3) out[i] = 1",
  },
  {
    name: "what a kernel copies from memory that was not filled",
    wrong({ pool, stream, x, out, run }) {
      using copy = pool.allocate(x.byteLength, stream);
      run("copies", x, copy);
      run("branches", copy, out);
    },
    right({ pool, stream, x, out, run }) {
      using copy = pool.allocate(x.byteLength, stream);
      x.fill(1, stream);
      run("copies", x, copy);
      run("branches", copy, out);
    },
    kind: branch,
    decidesAt: "if (x[i] > 3) out[i] = 1",
  },
  {
    name: "sums with what was not filled",
    wrong({ pool, stream, x, out, run }) {
      using sums = pool.allocate(x.byteLength, stream);
      run("adds", x, sums);
      run("branches", sums, out);
    },
    right: ({ x, out, run }) => run("adds", x, out),
    kind: branch,
    decidesAt: "if (x[i] > 3) out[i] = 1",
  },
  {
    name: "vectors of which a half is written",
    wrong({ pool, stream, x, out, run }) {
      using copy = pool.allocate(x.byteLength, stream);
      for (let at = 0; at < 512; at += 16) part(x, at, at + 8).fill(0, stream);
      run("copiesVectors", x, copy);
      run("readsVector", copy, out, 1);
    },
    right({ pool, stream, x, out, run }) {
      using copy = pool.allocate(x.byteLength, stream);
      for (let at = 0; at < 512; at += 16) part(x, at, at + 8).fill(0, stream);
      run("copiesVectors", x, copy);
      run("readsVector", copy, out, 0);
    },
    kind: branch,
    decidesAt: "if (all && own.z > 1.0f)",
  },
  arguing("shared memory that some threads write", "reversesInShared", {
    decidesAt: "if (tile[31 - threadIdx.x] > 3)",
    prepare: ({ x, stream }) => x.fill(0, stream),
    right: [32],
    wrong: [31],
  }),
  {
    name: "dynamic shared memory",
    wrong: ({ runWith, out }) => runWith({ sharedMemoryBytes: 128 }, "usesDynamicShared", out, 30),
    right: ({ runWith, out }) => runWith({ sharedMemoryBytes: 128 }, "usesDynamicShared", out, 32),
    kind: branch,
    decidesAt: "if (dynamic[threadIdx.x] > 3)",
  },
  {
    name: "shared memory that the block before has written",
    wrong({ runWith, out }) {
      runWith({ grid: 4 }, "usesSharedAlone", out, 5);
      runWith({ grid: 4 }, "usesSharedAlone", out, 0);
    },
    right: ({ runWith, out }) => runWith({ grid: 4 }, "usesSharedAlone", out, 5),
    kind: branch,
    decidesAt: "if (own[threadIdx.x] > 3)",
  },
  arguing("an array of a thread", "indexesLocal", {
    decidesAt: "if (sum > 3)",
    prepare: ({ x, stream }) => x.copyFrom(Int32Array.from({ length: 8 }, (_, index) => index), stream),
    right: [8],
    wrong: [7],
  }),
  {
    name: "the padding of structs",
    wrong({ pool, stream, x, out, run }) {
      using y = pool.allocate(x.byteLength, stream);
      run("setsStruct", x, 3);
      run("setsStruct", y, 3);
      run("comparesStructs", x, y, out, 1);
    },
    right({ pool, stream, x, out, run }) {
      using y = pool.allocate(x.byteLength, stream);
      run("setsStruct", x, 3);
      run("setsStruct", y, 3);
      run("comparesStructs", x, y, out, 0);
    },
    kind: branch,
    decidesAt: "if (same) out[0] = 1",
  },
  arguing("bit fields", "readsFields", {
    decidesAt: "own.middle == 5",
    prepare: ({ x, run }) => run("setsField", x),
    right: [0],
    wrong: [1],
  }),
  arguing("bytes that are joined to a word", "joinsBytes", {
    decidesAt: "if ((word & mask) == 7)",
    prepare({ x, stream }) {
      part(x, 0, 1).fill(7, stream);
      part(x, 2, 4).fill(0, stream);
    },
    right: [0xffff_00ff],
    wrong: [0xffff_01ff],
  }),
  arguing("a selection", "selects", {
    kind: address,
    decidesAt: "out[wanted ? value & 7 : other & 7] = 1",
    right: [0],
    wrong: [1],
  }),
  filling("a counter that is not set", "counts", [atomic, "atomicAdd(counter, 1)"]),
  {
    name: "a counter whose old value nobody reads",
    wrong: ({ run, x }) => run("countsUnread", x),
    right({ run, x, stream }) {
      x.fill(0, stream);
      run("countsUnread", x);
    },
    kind: atomic,
    decidesAt: "countsUnread(int* counter)",
  },
  {
    name: "an exchange, which sets memory",
    wrong({ run, x, out, pool, stream }) {
      using old = pool.allocate(x.byteLength, stream);
      run("exchanges", x, old);
      run("branches", x, out);
      run("locks", part(x, 256, 512), out);
    },
    right({ run, x, out, pool, stream }) {
      using old = pool.allocate(x.byteLength, stream);
      run("exchanges", x, old);
      run("branches", x, out);
    },
    kind: atomic,
    decidesAt: "atomicCAS(lock, 0, 1)",
  },
  filling("a lock that is not set", "locks", [atomic, "atomicCAS(lock, 0, 1)"]),
  filling("a number for an atomic maximum", "maximum", [atomic, "atomicMax(most, x[threadIdx.x])"]),
  arguing("a counter in shared memory", "countsInShared", {
    kind: atomic,
    decidesAt: "atomicAdd(&count, 1)",
    takesX: false,
    right: [1],
    wrong: [0],
  }),
  arguing("the first iteration with two buffers", "iterates", {
    decidesAt: "if (before > 100)",
    right: [4, 1],
    wrong: [4, 0],
    prepare: ({ x, stream }) => part(x, 0, 128).fill(0, stream),
  }),
  arguing("a sum over lanes", "sumsLanes", {
    decidesAt: "if (value > 3) out[threadIdx.x] = value",
    prepare: ({ x, stream }) => part(x, 0, 80).fill(0, stream),
    right: [20, 1],
    wrong: [20, 0],
  }),
  arguing("a shuffle from a lane", "shufflesFrom", {
    decidesAt: "if (value > 4) out[threadIdx.x] = value",
    prepare: ({ x, stream }) => part(x, 0, 80).fill(0, stream),
    right: [19],
    wrong: [20],
  }),
  arguing("a shuffle from a lane that has exited", "reducesWarp", {
    decidesAt: "if (threadIdx.x == 0 && sum > 4)",
    prepare: ({ x, stream }) => part(x, 0, 80).fill(0, stream),
    right: [20, 0],
    wrong: [20, 1],
  }),
  arguing("a ballot", "votes", {
    decidesAt: "if (ballot & ((1u << n) - 1))",
    prepare: ({ x, stream }) => part(x, 0, 80).fill(0, stream),
    right: [20],
    wrong: [21],
  }),
  {
    name: "a vote that one lane decides",
    wrong({ x, out, stream, run }) {
      part(x, 0, 4).copyFrom(new Int32Array([3]), stream);
      run("votesAny", x, out);
    },
    right({ x, out, stream, run }) {
      part(x, 0, 4).copyFrom(new Int32Array([4]), stream);
      run("votesAny", x, out);
    },
    kind: branch,
    decidesAt: "__any_sync",
  },
  filling("a match", "matches", [branch, "__match_any_sync"]),
  filling("a reduction", "reduces", [branch, "__reduce_add_sync"]),
  filling("a loop's bound", "loops", [branch, "i < (x[0] & 15)"]),
  {
    name: "a table of pointers",
    wrong({ pool, stream, x, out, run }) {
      using y = pool.allocate(4096, stream);
      run("copies", x, y);
      run("follows", x, out);
    },
    right({ pool, stream, x, out, run }) {
      using y = pool.allocate(4096, stream);
      run("setsPointers", x, y);
      run("follows", x, out);
    },
    kind: address,
    decidesAt: "*pointers[threadIdx.x]",
  },
  filling("an argument of a function", "calls", [branch, "if (value > 3) out[0] = 1"]),
  filling("a result of a function", "callsAndBranches", [branch, "if (passesOn(x[threadIdx.x]) > 3)"]),
  arguing("a result that a function sets on one way", "takesResult", {
    decidesAt: "if (result > 3)",
    takesX: false,
    right: [1],
    wrong: [0],
  }),
  arguing("memory that a kernel allocates", "allocates", {
    decidesAt: "if (own[threadIdx.x] > 4)",
    takesX: false,
    right: [1],
    wrong: [0],
  }),
  filling("a switch", "switches", [branch, "switch (x[threadIdx.x])"]),
  arguing("a half of two packed numbers", "comparesHalves", {
    decidesAt: "__high2float(sum) > 1.0f",
    prepare: ({ x, run }) => run("setsLowHalf", x),
    right: [0],
    wrong: [1],
  }),
  arguing("one flag of a word", "testsFlag", {
    decidesAt: "if (flags[threadIdx.x] & flag)",
    prepare: ({ x, run }) => run("setsFlag", x),
    right: [1],
    wrong: [2],
  }),
  {
    name: "a word into which bits are shifted",
    wrong({ x, out, run }) {
      run("shiftsIn", x, 5);
      run("branches", x, out);
    },
    right({ x, out, run }) {
      run("shiftsIn", x, 5);
      run("shiftsIn", x, 6);
      run("branches", x, out);
    },
    kind: branch,
    decidesAt: "if (x[i] > 3) out[i] = 1",
  },
  filling("a comparison of 64-bit floats", "comparesDoubles", [branch, "if (x[threadIdx.x] < 1.0)"]),
  {
    name: "a variable of the module, which begins with zeros",
    wrong({ x, out, run }) {
      run("setsVariable", x);
      run("readsVariable", out);
    },
    right: ({ out, run }) => run("readsVariable", out),
    kind: branch,
    decidesAt: "if (variable[threadIdx.x] > 3)",
  },
  filling("an asynchronous copy", "copiesAsynchronously", [branch, "if (tile[31 - threadIdx.x] > 5)"]),
  {
    name: "a trap",
    wrong: ({ x, run }) => run("traps", x),
    right({ x, stream, run }) {
      x.fill(0, stream);
      run("traps", x);
    },
    kind: branch,
    decidesAt: "__trap()",
  },
  {
    name: "a quotient, which decides nothing",
    wrong({ pool, stream, x, out, run }) {
      using y = pool.allocate(4096, stream);
      run("divides", x, y);
      run("branches", y, out);
    },
    right({ pool, stream, x, run }) {
      using y = pool.allocate(4096, stream);
      run("divides", x, y);
    },
    kind: branch,
    decidesAt: "if (x[i] > 3) out[i] = 1",
  },
  filling("an index that is clamped", "clamps", [address, "min(max(x[threadIdx.x], 0), 7)"]),
  {
    name: "an index that hides what was read",
    wrong: ({ x, out, run }) => run("clamps", x, out),
    right: ({ x, out, run }) => run("hides", x, out),
    kind: address,
    decidesAt: "min(max(x[threadIdx.x], 0), 7)",
  },
  filling("a count at a barrier", "countsOn", ["uninitialized-barrier", "__syncthreads_count"]),
  {
    name: "a comparison that the bits which are known decide",
    wrong: ({ x, out, run }) => run("branches", x, out),
    right: ({ x, out, run }) => run("comparesRanges", x, out),
    kind: branch,
    decidesAt: "if (x[i] > 3) out[i] = 1",
  },
];
