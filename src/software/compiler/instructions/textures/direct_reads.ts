/**
 * Reads of the most frequent textures by compiled code: of those of two dimensions and one level, with 32-bit channels or
 * bytes, and coordinates whose texels lie within the texture or are limited to its edges; and of such channels in linear
 * memory. The results are the same bits that the host function gives, which makes all other reads.
 *
 * @module
 */
import { exchangeOffset } from "../../../abi/launch_record.ts";
import {
  directFlags,
  directReads,
  directTexture,
  encodeTextureOperation,
  exchangeWords,
  type TextureOperation,
  textureTable,
} from "../../../abi/textures.ts";
import { helperIndex } from "../../helpers/helper_functions.ts";
import { FunctionWriter, type KernelFunctions } from "../../webassembly/kernel_functions.ts";
import type { CodeWriter } from "../../webassembly/code_writer.ts";
import type { FunctionDefinition } from "../../webassembly/module_encoder.ts";

/** The parameters of the functions: the coordinates are followed by the place and the thread for a fault. */
const [record, handle, x, y] = [0, 1, 2, 3] as const;

/** What is between a number of 24 bits and one of 53: the bits that rounding drops. */
const droppedBits = 29n;
/** The least exponent field of floats whose weighted sums are never subnormal. */
const leastTop = 40;
/** Coordinates from here on are left to the host function, because 256 times as much may not fit in an integer. */
const coordinateLimit = 2 ** 22;

/** What the operations of both functions have in common. */
const usual = { read: "sample", hasOffsets: false, channel: 0, results: "words" } as const;

/** A dimension of a texture: where its coordinate is, its size, and whether indices are limited to the edges. */
interface Dimension {
  readonly coordinate: number;
  readonly extent: "width" | "height";
  readonly clamps: number;
}

/**
 * Returns the index of the function that reads a texture of two dimensions. Its parameters are the launch record, the
 * handle, the coordinates, and the place and the thread for a fault. The results are in the exchange afterwards.
 */
export function directReadFunction(functions: KernelFunctions): number {
  return functions.indexOf("read a texture", () => new DirectRead("f32", 2).sample());
}

/** Returns the index of the function that reads linear memory by a texture, like `directReadFunction`, at an index. */
export function directFetchFunction(functions: KernelFunctions): number {
  return functions.indexOf("fetch from a texture", () => new DirectRead("i32", 1).fetch());
}

class DirectRead {
  readonly #type: "f32" | "i32";
  readonly #dimensions: number;
  readonly #f: FunctionWriter;
  readonly #slot: number;
  readonly #flags: number;
  readonly #position: number;
  readonly #index: number;
  readonly #channels: number;
  readonly #out: number;
  /** For each dimension the index of the first texel and of the second one, and the weight of the latter. */
  readonly #first: readonly [number, number];
  readonly #second: readonly [number, number];
  readonly #fractions: readonly [number, number];
  /** The offsets of four texels, and their weights in 256ths. */
  readonly #offsets: readonly number[];
  readonly #weights: readonly number[];
  readonly #codes: readonly number[];
  readonly #top: number;
  readonly #all: number;
  readonly #scale: number;
  readonly #sum: number;

  constructor(type: "f32" | "i32", dimensions: 1 | 2) {
    this.#type = type;
    this.#dimensions = dimensions;
    const coordinates = Array<"f32" | "i32">(dimensions).fill(type);
    const f = this.#f = new FunctionWriter(["i32", "i64", ...coordinates, "i32", "i32"]);
    [this.#slot, this.#flags, this.#index, this.#channels] = [f.local(), f.local(), f.local(), f.local()];
    [this.#out, this.#top, this.#all] = [f.local(), f.local(), f.local()];
    [this.#position, this.#scale, this.#sum] = [f.local("f64"), f.local("f64"), f.local("f64")];
    const pair = () => [f.local(), f.local()] as const;
    [this.#first, this.#second, this.#fractions] = [pair(), pair(), pair()];
    const four = () => [...pair(), ...pair()];
    [this.#offsets, this.#weights, this.#codes] = [four(), four(), four()];
  }

  get #code(): CodeWriter {
    return this.#f.code;
  }

  /** Writes the function that reads a texture of two dimensions. */
  sample(): FunctionDefinition {
    const code = this.#code;
    this.#begin("read");
    this.#load("read").i32(directReads.linear).ops("i32LtU").if();
    this.#readNearest();
    code.else();
    this.#readLinear();
    code.end().ops("return").end();
    this.#callHost({ ...usual, geometry: "2d", isFetch: false });
    return this.#f.finish();
  }

  /** Writes the function that reads linear memory. */
  fetch(): FunctionDefinition {
    const code = this.#code;
    this.#begin("fetch");
    // There are zeros outside.
    code.get(x);
    this.#load("width").ops("i32GeU").if().ops("return").end();
    this.#readTexel("fetch", () => this.#load("begin"), x);
    code.ops("return").end();
    this.#callHost({ ...usual, geometry: "1d", isFetch: true });
    return this.#f.finish();
  }

  /**
   * Writes code that finds the texture, and sets the results to 0. What the function does not read leaves a block that
   * begins here, and is read by the host function.
   */
  #begin(read: "read" | "fetch"): void {
    const code = this.#code;
    code.block();
    this.#findSlot(read);
    code.get(record).i32(exchangeOffset + 4 * exchangeWords.data).ops("i32Add").tee(this.#out);
    code.i64(0n).memory("i64Store").get(this.#out).i64(0n).memory("i64Store", 8);
    this.#load("channels").set(this.#channels);
  }

  #load(name: keyof typeof directTexture): CodeWriter {
    return this.#code.get(this.#slot).memory("i32Load", directTexture[name]);
  }

  #findSlot(read: "read" | "fetch"): void {
    const code = this.#code;
    const { begin, byteLength, slotByteLength } = textureTable;
    code.get(handle).ops("i32WrapI64").i32(byteLength / slotByteLength - 1).ops("i32And").i32(slotByteLength);
    code.ops("i32Mul").i32(begin).ops("i32Add").tee(this.#slot);
    code.memory("i32Load").ops("i64ExtendI32U").get(handle).ops("i64Ne").brIf(0);
    this.#load(read).ops("i32Eqz").brIf(0);
    this.#load("flags").set(this.#flags);
  }

  #callHost(operation: TextureOperation): void {
    const code = this.#code;
    code.get(record).get(handle).memory("i64Store", exchangeOffset + 4 * exchangeWords.handle);
    for (let index = 0; index < this.#dimensions; index++) {
      const at = exchangeOffset + 4 * (exchangeWords.coordinates + index);
      code.get(record).get(x + index).memory(this.#type === "f32" ? "f32Store" : "i32Store", at);
    }
    code.get(record).i32(exchangeOffset).ops("i32Add").i32(encodeTextureOperation(operation));
    code.get(x + this.#dimensions).get(x + this.#dimensions + 1).call(helperIndex("readTexture"));
  }

  /**
   * Writes code that sets `#position` to a coordinate in texels.
   *
   * @param depth the number of blocks to leave for the host function
   */
  #locate({ coordinate, extent }: Dimension, depth: number): void {
    const code = this.#code, position = this.#position;
    code.get(coordinate).ops("f64PromoteF32").set(position);
    code.get(this.#flags).i32(directFlags.normalizedCoordinates).ops("i32And").if();
    // Subnormal numbers and NaN count as 0.
    code.get(position).f64(0).get(position).ops("f64Abs").f64(2 ** -126).ops("f64Ge", "select");
    code.f64(2 ** 21).ops("f64Mul", "f64Floor").f64(2 ** -21).ops("f64Mul");
    this.#load(extent).ops("f64ConvertI32U", "f64Mul").set(position).end();
    code.get(position).ops("f64Abs").f64(coordinateLimit).ops("f64Lt", "i32Eqz").brIf(depth);
  }

  /** Writes code that limits `#index` to the edges of the texture, or leaves blocks if it is not limited. */
  #limit({ extent, clamps }: Dimension, depth: number): void {
    const code = this.#code;
    code.get(this.#flags).i32(clamps).ops("i32And", "i32Eqz").brIf(depth);
    code.i32(0);
    this.#load(extent).i32(1).ops("i32Sub").get(this.#index).i32(0).ops("i32LtS", "select").set(this.#index);
  }

  /** Writes code that pushes the offset of the row of an index. */
  #pushRow(row: number): CodeWriter {
    this.#load("rowBytes").get(row).ops("i32Mul");
    return this.#load("begin").ops("i32Add");
  }

  /** Writes a loop over the channels of texels whose offsets are in locals. */
  #forEachChannel({ bytes, offsets }: { bytes: number; offsets: readonly number[] }, body: () => void): void {
    const code = this.#code;
    code.loop();
    body();
    for (const offset of offsets) code.get(offset).i32(bytes).ops("i32Add").set(offset);
    code.get(this.#out).i32(4).ops("i32Add").set(this.#out);
    code.get(this.#channels).i32(1).ops("i32Sub").tee(this.#channels).brIf(0).end();
  }

  #readNearest(): void {
    const code = this.#code;
    dimensions.forEach((dimension, number) => {
      this.#locate(dimension, 1);
      code.get(this.#position).ops("f64Floor", "i32TruncSatF64S").tee(this.#index);
      this.#load(dimension.extent).ops("i32GeU").if();
      this.#limit(dimension, 2);
      code.end().get(this.#index).set(this.#first[number]!);
    });
    const [column, row] = this.#first;
    this.#readTexel("read", () => this.#pushRow(row), column);
  }

  /** Writes code that stores the channels of a texel without a filter. */
  #readTexel(read: "read" | "fetch", pushRow: () => CodeWriter, column: number): void {
    const code = this.#code, offset = this.#offsets[0]!;
    this.#load(read).i32(directReads.words).ops("i32Eq").if();
    pushRow().get(column).get(this.#channels).ops("i32Mul").i32(2).ops("i32Shl", "i32Add").set(offset);
    this.#forEachChannel({ bytes: 4, offsets: [offset] }, () => {
      code.get(this.#out).get(offset).memory("i32Load").memory("i32Store");
    });
    code.else();
    pushRow().get(column).get(this.#channels).ops("i32Mul", "i32Add").set(offset);
    this.#forEachChannel({ bytes: 1, offsets: [offset] }, () => {
      code.get(this.#out);
      code.get(offset).memory("i32Load8U").ops("f64ConvertI32U").f64(255).ops("f64Div", "f32DemoteF64");
      code.ops("i32ReinterpretF32").get(offset).memory("i32Load8U");
      this.#load(read).i32(directReads.normalizedBytes).ops("i32Eq", "select").memory("i32Store");
    });
    code.end();
  }

  #readLinear(): void {
    const code = this.#code;
    dimensions.forEach((dimension, number) => {
      const fraction = this.#fractions[number]!, first = this.#first[number]!, second = this.#second[number]!;
      this.#locate(dimension, 1);
      code.get(this.#position).f64(256).ops("f64Mul").f64(0.5).ops("f64Add", "f64Floor", "i32TruncSatF64S");
      code.i32(128).ops("i32Sub").tee(fraction).i32(8).ops("i32ShrS").tee(this.#index);
      code.get(fraction).i32(255).ops("i32And").set(fraction);
      this.#load(dimension.extent).i32(1).ops("i32Sub", "i32GeU").if();
      this.#limit(dimension, 2);
      code.i32(0).set(fraction).get(this.#index).tee(first).set(second);
      code.else().get(this.#index).tee(first).i32(1).ops("i32Add").set(second).end();
    });
    this.#weigh();
    this.#load("read").i32(directReads.linearFloats).ops("i32Eq").if();
    this.#findTexels(2);
    this.#forEachChannel({ bytes: 4, offsets: this.#offsets }, () => this.#sumFloats());
    code.else();
    this.#findTexels(0);
    this.#forEachChannel({ bytes: 1, offsets: this.#offsets }, () => {
      code.get(this.#out).i32(0);
      this.#offsets.forEach((offset, index) => {
        code.get(offset).memory("i32Load8U").get(this.#weights[index]!).ops("i32Mul", "i32Add");
      });
      code.i32(257).ops("i32Mul").i32(128).ops("i32Add").i32(8).ops("i32ShrU", "f64ConvertI32U").f64(65535);
      code.ops("f64Div", "f32DemoteF64").memory("f32Store");
    });
    code.end();
  }

  /** Writes code that sets the weights of texels: rounded to 256ths half up for the right ones, half down for the left. */
  #weigh(): void {
    const code = this.#code;
    const [right, down] = this.#fractions;
    const [upperLeft, upperRight, lowerLeft, lowerRight] = this.#weights as [number, number, number, number];
    const pushLeft = () => code.i32(256).get(right).ops("i32Sub");
    pushLeft().get(down).ops("i32Mul").i32(127).ops("i32Add").i32(8).ops("i32ShrU").set(lowerLeft);
    code.get(right).get(down).ops("i32Mul").i32(128).ops("i32Add").i32(8).ops("i32ShrU").set(lowerRight);
    pushLeft().get(lowerLeft).ops("i32Sub").set(upperLeft);
    code.get(right).get(lowerRight).ops("i32Sub").set(upperRight);
  }

  /** Writes code that sets the offsets of the four texels, whose channels have 2 ** `shift` bytes. */
  #findTexels(shift: number): void {
    const code = this.#code;
    [this.#first[1], this.#second[1]].forEach((row, number) => {
      [this.#first[0], this.#second[0]].forEach((column, index) => {
        this.#pushRow(row).get(column).get(this.#channels).ops("i32Mul").i32(shift).ops("i32Shl", "i32Add");
        code.set(this.#offsets[2 * number + index]!);
      });
    });
  }

  /**
   * Writes code that stores the weighted sum of four floats. Each is cut to 28 bits below the largest exponent, and the
   * sum is rounded to 24 bits, half away from 0.
   */
  #sumFloats(): void {
    const code = this.#code, top = this.#top, all = this.#all;
    const pushExponent = (float: number) => code.get(float).i32(23).ops("i32ShrU").i32(255).ops("i32And");
    code.i32(0).set(top).i32(-1).set(all);
    this.#codes.forEach((float, index) => {
      const weight = this.#weights[index]!;
      code.get(this.#offsets[index]!).memory("i32Load").set(float);
      // Infinities and NaNs.
      pushExponent(float).i32(255).ops("i32Eq").brIf(3);
      code.get(weight).if().get(all).get(float).ops("i32And").set(all);
      pushExponent(float).tee(this.#index).get(top).get(this.#index).get(top).ops("i32GtU", "select").set(top).end();
    });
    // Without numbers other than 0 the result is 0, with a sign if all are negative.
    code.get(top).i32(leastTop).ops("i32LtU").if();
    code.get(top).brIf(4);
    this.#storeZero().else();
    const power = (pushExponentField: () => void) => {
      pushExponentField();
      code.ops("i64ExtendI32U").i64(52n).ops("i64Shl", "f64ReinterpretI64");
    };
    power(() => code.i32(1023 + 154).get(top).ops("i32Sub"));
    code.set(this.#scale);
    this.#codes.forEach((float, index) => {
      code.get(float).ops("f32ReinterpretI32", "f64PromoteF32").get(this.#scale).ops("f64Mul", "f64Trunc");
      code.get(this.#weights[index]!).ops("f64ConvertI32U", "f64Mul");
      if (index > 0) code.ops("f64Add");
    });
    code.tee(this.#sum).f64(0).ops("f64Eq").if();
    this.#storeZero().else();
    code.get(this.#out).get(this.#sum);
    power(() => code.get(top).i32(1023 - 154 - 8).ops("i32Add"));
    code.ops("f64Mul", "i64ReinterpretF64").i64(1n << droppedBits - 1n).ops("i64Add").i64(-(1n << droppedBits));
    code.ops("i64And", "f64ReinterpretI64", "f32DemoteF64").memory("f32Store").end().end();
  }

  /** Writes code that stores a zero, whose sign is that of `#all`. */
  #storeZero(): CodeWriter {
    return this.#code.get(this.#out).get(this.#all).i32(-0x8000_0000).ops("i32And").memory("i32Store");
  }
}

const dimensions: readonly Dimension[] = [
  { coordinate: x, extent: "width", clamps: directFlags.clampsX },
  { coordinate: y, extent: "height", clamps: directFlags.clampsY },
];
