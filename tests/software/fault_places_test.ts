/**
 * Random faults: the kernel, the block, the thread, the line and the access that an error names must be those that the
 * launch asked for.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { isLong, test } from "../support/test.ts";
import { KernelFault } from "../../src/software/execution/faults/kernel_fault.ts";
import { launchInSlices } from "../../src/software/execution/launching/kernel_launch.ts";
import { loadSoftwareModule } from "../../src/software/execution/modules/module_loader.ts";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";
import { addressOfOffset, wholePages } from "../../src/software/memory/memory_layout.ts";

type Index = readonly [x: number, y: number, z: number];

/** Instructions that access `[%rd1]`. */
const accesses: readonly [name: string, instruction: string, verb: string, bytes: number][] = [
  ["load8", "ld.global.u8 %r1, [%rd1];", "reads", 1],
  ["load16", "ld.u16 %h1, [%rd1];", "reads", 2],
  ["load32", "ld.global.u32 %r1, [%rd1];", "reads", 4],
  ["load32c", "ld.global.nc.f32 %f1, [%rd1];", "reads", 4],
  ["load64", "ld.u64 %rd2, [%rd1];", "reads", 8],
  ["load128", "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];", "reads", 16],
  ["store8", "st.u8 [%rd1], 1;", "writes", 1],
  ["store16", "st.global.u16 [%rd1], %h1;", "writes", 2],
  ["store32", "st.global.u32 [%rd1], 1;", "writes", 4],
  ["storeOwn", "st.global.u32 [%rd1], %tid.x;", "writes", 4],
  ["store64", "st.global.v2.f32 [%rd1], {%f1, %f1};", "writes", 8],
  ["store128", "st.v2.u64 [%rd1], {%rd1, %rd1};", "writes", 16],
  ["atom32", "atom.global.add.u32 %r1, [%rd1], 1;", "atomically updates", 4],
  ["red32", "red.global.add.f32 [%rd1], %f1;", "atomically updates", 4],
  ["atom64", "atom.cas.b64 %rd2, [%rd1], 1, 2;", "atomically updates", 8],
];

/** How one thread comes to its access while the others do nothing. */
const ways: Readonly<Record<string, (instruction: string) => string>> = {
  predicate: (instruction) => `@%p1 ${instruction}`,
  branch: (instruction) => `@!%p1 bra END;\n${instruction}\nEND:`,
  barrier: (instruction) => `bar.sync 0;\n@%p1 ${instruction}\nbar.sync 0;`,
  branchBehindBarrier: (instruction) => `bar.sync 0;\n@!%p1 bra END;\n${instruction}\nEND:\nbar.sync 0;`,
  loop: (instruction) =>
    `mov.u32 %r20, 0;\nLOOP:\nsetp.eq.and.u32 %p2, %r20, 3, %p1;\n@%p2 ${instruction}\n` +
    "add.u32 %r20, %r20, 1;\nsetp.lt.u32 %p3, %r20, 5;\n@%p3 bra LOOP;",
  // The other threads access memory that exists.
  select: (instruction) => `selp.u64 %rd1, %rd1, %rd4, %p1;\n${instruction}`,
  call: (instruction) => `@!%p1 bra END;\n{ call reach, (%rd1); }\n${instruction}\nEND:`,
};

const axes = ["x", "y", "z"] as const;

const sourceLines = 1_000_000;

/** The line of each kernel's access in the PTX. */
const accessLines = new Map<string, number>();

function kernels(): string {
  let ptx = ".version 7.8\n.target sm_80\n.address_size 64\n.func reach(.param .b64 a) { ret; }\n";
  for (const [wayName, way] of Object.entries(ways)) {
    for (const [accessName, instruction] of accesses) {
      const name = `${wayName}_${accessName}`;
      const body = way(instruction).split("\n");
      const compare = ["ctaid", "tid"].flatMap((register, half) =>
        axes.flatMap((axis, index) => [
          `ld.param.u32 %r10, [p${3 * half + index}];`,
          `mov.u32 %r11, %${register}.${axis};`,
          `setp.eq${half + index === 0 ? "" : ".and"}.u32 %p1, %r10, %r11${half + index === 0 ? "" : ", %p1"};`,
        ])
      );
      const head = [
        `.visible .entry ${name}(${Array.from({ length: 6 }, (_, index) => `.param .u32 p${index}`).join(", ")},` +
        " .param .u64 address, .param .u64 valid) {",
        ".reg .pred %p<4>; .reg .b16 %h<2>; .reg .b32 %r<30>; .reg .b64 %rd<6>; .reg .f32 %f<2>;",
        "ld.param.u64 %rd1, [address];",
        "ld.param.u64 %rd4, [valid];",
        ...compare,
      ];
      const at = body.findIndex((line) => line.includes(instruction));
      // Some kernels have line information, in which the line is `sourceLines` plus that of the PTX.
      const begin = ptx.split("\n").length + head.length;
      const hasLines = accessName.length % 2 === 0;
      if (hasLines) body.splice(at, 0, `.loc 2 ${sourceLines + begin + at + 1} 3`);
      accessLines.set(name, (hasLines ? sourceLines : 0) + begin + at + (hasLines ? 1 : 0));
      ptx += [...head, ...body, hasLines ? ".loc 2 5 0" : "", "ret;", "}", ""].join("\n");
    }
  }
  return `${ptx}.file 1 "/build/other.cu"\n.file 2 "/build/me/faults.cu"\n`;
}

/** A generator of the same numbers in every run. */
function randomNumbers(seed: number): (end: number) => number {
  let state = seed;
  return (end) => {
    state = Math.imul(state ^ state >>> 15, 0x2c1b3c6d) + 0x9e3779b9 | 0;
    const mixed = Math.imul(state ^ state >>> 13, 0x297a2d39);
    return Math.floor(((mixed ^ mixed >>> 16) >>> 0) / 2 ** 32 * end);
  };
}

for (const [gangs, cases] of [[false, 1500], ["always", isLong ? 2500 : 630]] as const) {
  test(`a fault names the place and the access that the launch asked for, ${gangs ? "in gangs" : "scalar"}`, {
    long: gangs === false,
  }, () => {
    const linearMemory = new LinearMemory();
    linearMemory.ensureBoundsTable(0);
    const byteLength = 4091;
    const begin = linearMemory.reserve(wholePages(byteLength))!;
    linearMemory.allow(0, begin, byteLength);
    const random = randomNumbers(7);
    const ptx = kernels();
    const module = loadSoftwareModule(ptx, linearMemory, { reserve: () => assert(false) as never, gangs });
    const names = [...module.kernels.keys()];
    const seen = new Set<string>();
    const isGang: boolean[] = [];
    try {
      for (let each = 0; each < cases; each++) {
        const name = names[each % names.length]!;
        const [, , verb, bytes] = accesses.find(([access]) => name.endsWith(`_${access}`))!;
        const block = [[1, 3, 4, 8, 24, 32, 48][random(7)]!, 1 + random(3), 1 + random(2)] as const;
        const grid = [1 + random(6), 1 + random(3), 1 + random(2)] as const;
        const inside = (limit: Index) => limit.map((end) => random(end)) as unknown as Index;
        const [blockIndex, threadIndex] = [inside(grid), inside(block)];
        const offset = [begin + byteLength, begin - 16, 8, begin + 4096 - bytes, begin + 77, 0x7fff_ff00][random(6)]!;
        const address = addressOfOffset(offset - offset % (bytes === 1 ? 1 : bytes / 2));
        const view = new DataView(new ArrayBuffer(40));
        [...blockIndex, ...threadIndex].forEach((number, index) => view.setUint32(4 * index, number, true));
        view.setBigUint64(24, address, true);
        view.setBigUint64(32, addressOfOffset(begin), true);
        const kernel = module.kernels.get(name)!;
        isGang.push(kernel.gang.for({ grid, block }) !== undefined);
        let named: readonly number[] = [];
        const { run } = launchInSlices(kernel, { grid, block }, {
          linearMemory,
          parameters: new Uint8Array(view.buffer),
          bounds: linearMemory.boundsTableOf(0),
          memoryNames: {
            position(...access) {
              named = access;
              return "in the place of the test";
            },
            bytesFrom: () => undefined,
          },
        });
        const isAligned = address % BigInt(bytes) === 0n;
        const isInside = address >= addressOfOffset(begin) &&
          address + BigInt(bytes) <= addressOfOffset(begin + byteLength);
        if (isInside && isAligned) continue;
        const fault = assertThrows(() => {
          while (!run());
        }, KernelFault) as KernelFault;
        const line = accessLines.get(name)!;
        assertEquals(
          fault.message,
          `kernel ${name}, block (${blockIndex}), thread (${threadIndex}), ` +
            `${line > sourceLines ? `faults.cu:${line}` : `line ${line} of the PTX`}: ${verb} ` +
            `${bytes === 1 ? "1 byte" : `${bytes} bytes`} at 0x${address.toString(16)}, ` +
            `${!isAligned ? `not a multiple of ${bytes}, ` : ""}in the place of the test`,
          `${name} ${block} ${grid}`,
        );
        assertEquals(named, [Number(address & 0xffff_ffffn), bytes]);
        assertEquals([fault.block, fault.thread, fault.address], [blockIndex, threadIndex, address]);
        seen.add(name);
      }
    } finally {
      linearMemory.deny(0, begin, byteLength);
      linearMemory.release(begin, wholePages(byteLength));
      linearMemory.close();
    }
    assertEquals(seen.size, names.length, "every kernel has faulted");
    assertEquals(isGang.some((isGang) => isGang), gangs === "always");
  });
}

const [firstRow, lastRow] = ["setp.eq.u32 %p1, %r0, %r0;", "bar.sync 0;"];

for (const gangs of [false, "always"] as const) {
  test(`a fault names the first thread past the end of a buffer, ${gangs ? "in gangs" : "scalar"}`, () => {
    const linearMemory = new LinearMemory();
    linearMemory.ensureBoundsTable(0);
    const begin = linearMemory.reserve(wholePages(2 ** 16))!;
    const random = randomNumbers(3);
    const bodies = ["ld.global.f32 %f1, [%rd1];", "st.u32 [%rd1], %r0;", "red.global.add.u32 [%rd1], 1;"];
    const ptx = bodies.flatMap((instruction, index) =>
      [firstRow, lastRow].map((before, way) =>
        `.visible .entry k${2 * index + way}(.param .u64 address) {
.reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .f32 %f<2>;
ld.param.u64 %rd1, [address];
mov.u32 %r0, %tid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r0, %r2, %r1, %r0;
mul.wide.u32 %rd2, %r0, 4; add.u64 %rd1, %rd1, %rd2;
${before}
.loc 1 ${index + 7} 1
${instruction}
ret;
}
`
      )
    ).join("");
    const module = loadSoftwareModule(
      `.version 7.8\n.target sm_80\n.address_size 64\n${ptx}.file 1 "step.cu"`,
      linearMemory,
      {
        reserve: () => assert(false) as never,
        gangs,
      },
    );
    try {
      for (let each = 0; each < 300; each++) {
        const kernel = module.kernels.get(`k${each % 6}`)!;
        const block = [4, 16, 32, 64, 96][random(5)]!;
        const first = random(4 * block);
        linearMemory.allow(0, begin, 4 * first + random(4));
        const parameters = new Uint8Array(new BigUint64Array([addressOfOffset(begin)]).buffer);
        const { run } = launchInSlices(kernel, { grid: [4, 1, 1], block: [block, 1, 1] }, {
          linearMemory,
          parameters,
          bounds: linearMemory.boundsTableOf(0),
          memoryNames: { position: () => "here", bytesFrom: () => undefined },
        });
        const fault = assertThrows(() => {
          while (!run());
        }, KernelFault) as KernelFault;
        assertEquals(
          fault.message,
          `kernel k${each % 6}, block (${Math.floor(first / block)},0,0), thread (${first % block},0,0), step.cu:${
            7 + Math.floor(each % 6 / 2)
          }: ${["reads", "writes", "atomically updates"][Math.floor(each % 6 / 2)]} 4 bytes at 0x${
            addressOfOffset(begin + 4 * first).toString(16)
          }, here`,
          `${block} ${first}`,
        );
        linearMemory.deny(0, begin, 2 ** 16);
      }
    } finally {
      linearMemory.deny(0, begin, 2 ** 16);
      linearMemory.release(begin, wholePages(2 ** 16));
      linearMemory.close();
    }
  });
}
