/**
 * Operands in shared memory of the products of a warpgroup. PTX ISA, sections 9.7.15.5.1.2 and 9.7.15.5.1.3.
 *
 * A matrix descriptor states where an operand is. The operand consists of lines: rows of A or columns of B whose
 * elements are adjacent along K, or, if the operand is transposed, one line for each K whose elements are adjacent along
 * M or N. A line consists of pieces of 16 bytes. Lines are W bytes apart, groups of eight lines `stride` bytes, and
 * groups of W / 16 pieces `leading` bytes. W is the width of the swizzle pattern, or 16 without one. In a transposed
 * operand without a pattern, `leading` and `stride` are exchanged. A pattern exchanges the pieces within each line.
 *
 * A piece of eight lines that are not transposed is a register of the fragments of a warp, with which the product is
 * then computed as any other.
 *
 * @module
 */
import { bitsOfFormat, ElementReader, type FloatFormat } from "./formats.ts";
import { faultKind, placeSpaceShift, shadowOffset } from "../../abi/addresses.ts";
import { helperIndex } from "../helpers/helper_functions.ts";
import { orderBits } from "../../abi/check_state.ts";
import { pushFlags } from "./fragments.ts";
import { FunctionWriter, type KernelFunctions } from "../webassembly/kernel_functions.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";
import { hostIndex } from "../../abi/host_functions.ts";
import { launchFieldOffset } from "../../abi/launch_record.ts";
import { workspace } from "./workspace.ts";

/** An operand in shared memory. */
export interface SharedOperand {
  /** The number of groups of eight rows of A or columns of B that are read at once. */
  readonly blocks: number;
  /** The number of bytes of a row of A or a column of B. */
  readonly rowBytes: number;
  /** Whether elements, which have 16 bits, are adjacent along M or N. */
  readonly isTransposed: boolean;
  /** The bits of each word that are inverted. */
  readonly flipped: number;
  readonly hasShadows: boolean;
  readonly checksRaces: boolean;
}

/** The parameters of functions that read an operand. */
const space = 0, offset = 1, descriptor = 2, first = 3, launch = 4, thread = 5, place = 6;

/**
 * Returns a function that copies a part of an operand to the fragments of a warp's lanes. Its parameters are the
 * workspace, the offset of the fragments, the descriptor, the number of the first group of eight rows of A or columns of
 * B, the launch record, the thread, and the encoded location of the instruction.
 */
export function sharedReader(functions: KernelFunctions, operand: SharedOperand): number {
  return functions.indexOf(`shared ${JSON.stringify(operand)}`, () => writeSharedReader(functions, operand));
}

function writeSharedReader(
  functions: KernelFunctions,
  { blocks, rowBytes, isTransposed, flipped, hasShadows, checksRaces }: SharedOperand,
): FunctionDefinition {
  const f = new FunctionWriter(["i32", "i32", "i64", "i32", "i32", "i32", "i32"]);
  const { code } = f;
  const find = findFunction(functions, { isTransposed, checksRaces });
  const at = f.local(), line = f.local(), fragments = f.local(), piece = f.local("v128"), shadow = f.local("v128");
  const load = (pushLine: () => void, pushPiece: () => void) => {
    code.get(descriptor);
    pushLine();
    pushPiece();
    code.get(launch).get(thread).get(place).call(find).set(at);
    code.get(at).v128Load();
    if (flipped !== 0) code.i32x4(Array(4).fill(flipped)).simd("v128Xor");
    code.set(piece);
    if (hasShadows) code.get(at).v128Load(shadowOffset).set(shadow);
  };
  const copies = hasShadows ? [[piece, 0], [shadow, shadowOffset]] as const : [[piece, 0]] as const;
  if (!isTransposed) {
    f.loop(8, (group) => {
      code.get(space).get(group).i32(4).ops("i32Shl", "i32Add").set(line);
      for (let block = 0; block < blocks; block++) {
        for (let index = 0; index < rowBytes / 16; index++) {
          load(
            () => code.get(first).i32(block).ops("i32Add").i32(3).ops("i32Shl").get(group).ops("i32Add"),
            () => code.i32(index),
          );
          for (let member = 0; member < 4; member++) {
            code.get(line).memory("i32Load", workspace.lanes + 4 * member).get(offset).ops("i32Add").set(fragments);
            for (const [local, distance] of copies) {
              code.get(fragments).get(local);
              code.storeLane("v128Store32Lane", member, 4 * (index * blocks + block) + distance);
            }
          }
        }
      }
    });
    return f.finish();
  }
  const word = f.local();
  f.loop(rowBytes / 2, (k) => {
    // The lanes of row 0 that have the element, and the offset of the element in their fragments.
    code.get(space).get(k).i32(1).ops("i32ShrU").i32(3).ops("i32And").i32(2).ops("i32Shl", "i32Add").set(line);
    code.get(k).i32(3).ops("i32ShrU").i32(4 * blocks).ops("i32Mul");
    code.get(k).i32(1).ops("i32And").i32(1).ops("i32Shl", "i32Add").get(offset).ops("i32Add").set(word);
    for (let block = 0; block < blocks; block++) {
      load(() => code.get(k), () => code.get(first).i32(block).ops("i32Add"));
      for (let group = 0; group < 8; group++) {
        code.get(line).memory("i32Load", workspace.lanes + 16 * group).get(word).ops("i32Add").set(fragments);
        for (const [local, distance] of copies) {
          code.get(fragments).get(local).storeLane("v128Store16Lane", group, 4 * block + distance);
        }
      }
    }
  });
  return f.finish();
}

/** Columns of B that are converted to a row for each K. */
export interface SharedColumns {
  readonly format: FloatFormat;
  /** The number of bytes of a column. */
  readonly columnBytes: number;
  /** Whether elements are adjacent along N. */
  readonly isTransposed: boolean;
  readonly checksRaces: boolean;
}

/**
 * Returns a function that converts eight columns of B, as `floatReader` does for fragments. Its parameters are the offset
 * of the converted operand in linear memory, 0, the descriptor, the number of the group of eight columns, the launch
 * record, the thread, and the encoded location of the instruction; it returns the operand's flags.
 */
export function columnReader(functions: KernelFunctions, columns: SharedColumns): number {
  return functions.indexOf(`columns ${JSON.stringify(columns)}`, () => writeColumnReader(functions, columns));
}

function writeColumnReader(
  functions: KernelFunctions,
  { format, columnBytes, isTransposed, checksRaces }: SharedColumns,
): FunctionDefinition {
  const f = new FunctionWriter(["i32", "i32", "i64", "i32", "i32", "i32", "i32"], ["i32"]);
  const { code } = f;
  const target = 0;
  const perWord = 32 / bitsOfFormat[format], depth = columnBytes / 4 * perWord;
  const find = findFunction(functions, { isTransposed, checksRaces });
  const reader = new ElementReader(f, format, { normalizes: false });
  const halves = [0, 1].map(() => ({ values: f.local("v128"), exponents: f.local("v128") }));
  const values = f.local(), exponents = f.local();
  code.get(target).set(values).get(target).i32(4 * 8 * depth).ops("i32Add").set(exponents);
  /** Converts words of four columns each, which have elements of one or several K, from the `index`-th on. */
  const convert = (index: number, words: readonly number[]) => {
    for (let element = 0; element < perWord; element++) {
      const k = index * perWord + element;
      halves.forEach((half, which) => {
        reader.read(words[which]!, { element, ...half });
        code.get(values).get(half.values).v128Store(32 * k + 16 * which);
      });
      code.get(exponents).get(halves[0]!.exponents).get(halves[1]!.exponents).simd("i16x8NarrowI32x4S");
      code.v128Store(16 * k);
    }
  };
  const advance = (count: number) => {
    code.get(values).i32(32 * count).ops("i32Add").set(values);
    code.get(exponents).i32(16 * count).ops("i32Add").set(exponents);
  };
  const load = (vector: number, pushLine: () => void, pushPiece: () => void) => {
    code.get(descriptor);
    pushLine();
    pushPiece();
    code.get(launch).get(thread).get(place).call(find).v128Load().set(vector);
  };
  const interleave = (left: number, right: number, half: number) => {
    return code.get(left).get(right).i8x16Shuffle(interleaved(isTransposed ? 2 : 4, half));
  };
  let vectors = Array.from({ length: 8 }, () => f.local("v128"));
  let others = vectors.map(() => f.local("v128"));
  if (isTransposed) {
    const line = f.local();
    f.loop(depth / 2, (pair) => {
      [0, 1].forEach((k) => {
        code.get(pair).i32(1).ops("i32Shl").i32(k).ops("i32Add").set(line);
        load(vectors[k]!, () => code.get(line), () => code.get(first));
      });
      for (const half of [0, 1]) interleave(vectors[0]!, vectors[1]!, half).set(others[half]!);
      convert(0, others);
      advance(2);
    });
  } else {
    f.loop(columnBytes / 16, (piece) => {
      vectors.forEach((vector, column) => {
        load(vector, () => code.get(first).i32(3).ops("i32Shl").i32(column).ops("i32Add"), () => code.get(piece));
      });
      // Interleaving the words of both halves three times transposes them: four rows of the words of eight columns.
      for (let round = 0; round < 3; round++) {
        for (let pair = 0; pair < 4; pair++) {
          for (const half of [0, 1]) {
            interleave(vectors[pair]!, vectors[pair + 4]!, half).set(others[2 * pair + half]!);
          }
        }
        [vectors, others] = [others, vectors];
      }
      for (let word = 0; word < 4; word++) convert(word, [vectors[2 * word]!, vectors[2 * word + 1]!]);
      advance(4 * perWord);
    });
  }
  pushFlags(f, reader, { target, size: 8 * depth });
  return f.finish();
}

/** The bytes of a shuffle that interleaves the elements in the lower or upper halves of two vectors. */
function interleaved(elementBytes: number, half: number): number[] {
  return Array.from({ length: 16 }, (_, byte) => {
    const element = Math.floor(byte / elementBytes);
    return (element % 2) * 16 + 8 * half + (element >> 1) * elementBytes + byte % elementBytes;
  });
}

/** How pieces are found, and whether they are reported to the check of races. */
type Finding = Pick<SharedOperand, "isTransposed" | "checksRaces">;

/**
 * Returns a function that returns the offset in linear memory of a piece of a line. Its parameters are the descriptor,
 * the line, the piece, the launch record, the thread, and the encoded location of the instruction.
 */
function findFunction(functions: KernelFunctions, finding: Finding): number {
  return functions.indexOf(`find ${JSON.stringify(finding)}`, () => writeFind(finding));
}

function writeFind({ isTransposed, checksRaces }: Finding): FunctionDefinition {
  const f = new FunctionWriter(["i64", "i32", "i32", "i32", "i32", "i32"], ["i32"]);
  const [descriptor, line, piece, launch, thread, place] = [0, 1, 2, 3, 4, 5] as const;
  const { code } = f;
  const low = f.local(), high = f.local(), mask = f.local(), leading = f.local(), stride = f.local(), at = f.local();
  const swap = f.local();
  code.get(descriptor).ops("i32WrapI64").set(low);
  code.get(descriptor).i64(32n).ops("i64ShrU", "i32WrapI64").set(high);
  // Patterns of 128, 64 and 32 bytes have the numbers 1, 2 and 3, and exchange 8, 4 and 2 pieces.
  code.i32(0x1370).get(high).i32(30).ops("i32ShrU").i32(2).ops("i32Shl", "i32ShrU").i32(7).ops("i32And").set(mask);
  code.get(low).i32(16).ops("i32ShrU").i32(0x3fff).ops("i32And").i32(4).ops("i32Shl").set(leading);
  code.get(high).i32(0x3fff).ops("i32And").i32(4).ops("i32Shl").set(stride);
  if (isTransposed) {
    code.get(mask).ops("i32Eqz").if().get(leading).set(swap).get(stride).set(leading).get(swap).set(stride).end();
  }
  code.get(low).i32(0x3fff).ops("i32And").i32(4).ops("i32Shl");
  code.get(line).i32(3).ops("i32ShrU").get(stride).ops("i32Mul", "i32Add");
  code.get(line).i32(7).ops("i32And").get(mask).i32(1).ops("i32Add").i32(4).ops("i32Shl", "i32Mul", "i32Add");
  code.get(piece).get(mask).ops("i32And").i32(4).ops("i32Shl", "i32Add");
  code.get(piece).get(mask).ops("i32Popcnt", "i32ShrU").get(leading).ops("i32Mul", "i32Add").set(at);
  // The bits of the address from 7 on, relative to the beginning of the pattern, select the exchange.
  code.get(at).get(at).i32(7).ops("i32ShrU").get(high).i32(17).ops("i32ShrU", "i32Sub").get(mask).ops("i32And");
  code.i32(4).ops("i32Shl", "i32Xor").tee(at).i32(16).ops("i32Add");
  code.get(launch).memory("i32Load", launchFieldOffset("sharedBytes")).ops("i32GtU").ifUnlikely();
  code.i32(faultKind.matrixDescriptor).get(at).ops("i64ExtendI32U").get(place).get(thread).call(hostIndex("fault"));
  code.ops("unreachable").end();
  code.get(launch).memory("i32Load", launchFieldOffset("shared")).get(at).ops("i32Add");
  if (checksRaces) {
    // Tensor cores read shared memory by the asynchronous proxy. All accesses are compared as generic ones.
    code.tee(at).get(at).get(place).i32(~(3 << placeSpaceShift)).ops("i32And").get(thread).i32(orderBits.proxy);
    code.call(helperIndex("compareAccess"));
  }
  return f.finish();
}
