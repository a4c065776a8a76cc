import type { CorpusProgram } from "../corpus_program.ts";
import { struct } from "../../../src/objects/structs/struct.ts";
import { randomWords } from "./contents.ts";

const Point = struct({ x: "s16", y: "s16" });
const Shape = struct({ kind: "s8", corners: [Point, 3], weight: "f64", color: ["u8", 3] });
const Table = struct({ words: ["u32", 200], length: "u32" });
const corners = [1, -2, 300, -400, -32768, 32767];
const shape = { kind: -5, weight: -0.1, color: [0, 127, 255] };

/** A fresh one for each launch. */
function packedShape(): ArrayBufferView {
  const points = [0, 2, 4].map((index) => ({ x: corners[index]!, y: corners[index + 1]! }));
  return Shape({ ...shape, corners: points });
}

function members(kind: number, xSign: number): BigInt64Array {
  // The negation of the smallest short is itself.
  const turned = corners.map((value, index) => index % 2 === 0 ? xSign * value << 16 >> 16 : value);
  return BigInt64Array.from([kind, ...turned, ...shape.color].map(BigInt));
}

const tableLength = 197;
const table = randomWords(200, 11);
const packedTable = Table({ words: table, length: tableLength });
const count = 150;

export const program: CorpusProgram = {
  covers: "structs by value as kernel parameters and as arguments of functions, indexed at run time and modified",
  buffers: () => ({
    members: new BigInt64Array(10),
    weight: new Float64Array(1),
    indices: randomWords(count, 12),
    found: new Uint32Array(count),
    sorted: new Uint32Array(64),
    mirroredMembers: new BigInt64Array(10),
    mirroredWeight: new Float64Array(1),
  }),
  launches: [
    { kernel: "read_members", grid: 1, block: 1, arguments: [packedShape(), "members", "weight"] },
    { kernel: "look_up", grid: 3, block: 64, arguments: [packedTable, "indices", "found", count] },
    { kernel: "sort_parameter", grid: 1, block: 8, arguments: [packedTable, "sorted"] },
    { kernel: "pass_on", grid: 1, block: 1, arguments: [packedShape(), "mirroredMembers", "mirroredWeight"] },
  ],
  expected({ indices }) {
    const sorted = new Uint32Array(64);
    for (let begin = 0; begin < 64; begin += 8) {
      const own = table.slice();
      own.subarray(begin, begin + 8).sort();
      for (let index = begin; index < begin + 8; index++) sorted[index] = own[index]! + own[(index + 8) % 64]!;
    }
    return {
      members: members(shape.kind, 1),
      mirroredMembers: members(shape.kind + 1, -1),
      mirroredWeight: Float64Array.of(shape.weight),
      weight: Float64Array.of(shape.weight),
      found: (indices as Uint32Array).map((index) => table[index % tableLength]!),
      sorted,
    };
  },
};
