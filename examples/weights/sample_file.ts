/**
 * A safetensors file to try with: the tensors of a language model, with numbers that are the same each time.
 *
 * @module
 */
import type { FileHandle } from "node:fs/promises";

/** A tensor of a file. */
export interface SampleTensor {
  readonly name: string;
  /** The name that the format has for the type of the elements. */
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Where its first byte lies in the data. */
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** The size of the pieces in which the file is written. */
const pieceByteLength = 4 * 2 ** 20;
/** A model of a size has about so many layers, but for rounding. */
const layers = 16;

/** Writes a file whose tensors have at most `byteLength` bytes, and few less. Returns the tensors. */
export async function writeSample(
  file: FileHandle,
  byteLength: number,
  { signal, onProgress }: { signal: AbortSignal; onProgress: (byteLength: number) => void },
): Promise<readonly SampleTensor[]> {
  const tensors = tensorsOfModel(byteLength);
  const header = encodeHeader({ metadata: new Map(), tensors });
  await writeFully(file, header, 0);
  const numbers = new PseudoRandomBytes();
  for (const { byteOffset, byteLength } of tensors) {
    for (let begin = 0; begin < byteLength; begin += pieceByteLength) {
      signal.throwIfAborted();
      const bytes = numbers.next(Math.min(pieceByteLength, byteLength - begin));
      await writeFully(file, bytes, header.length + byteOffset + begin);
      onProgress(bytes.length);
    }
  }
  return tensors;
}

/** The tensors of a model whose size fits: its layers, and the embeddings in what they leave. */
function tensorsOfModel(byteLength: number): readonly SampleTensor[] {
  let width = 8;
  while (layers * layerByteLength(2 * width) <= byteLength) width *= 2;
  const count = Math.floor(byteLength * 15 / 16 / layerByteLength(width));
  const tensors: SampleTensor[] = [];
  let byteOffset = 0;
  const add = (name: string, dtype: string, shape: readonly number[]): void => {
    const byteLength = byteLengthOf(dtype, shape);
    tensors.push({ name, dtype, shape, byteOffset, byteLength });
    byteOffset += byteLength;
  };
  for (let layer = 0; layer < count; layer++) {
    for (const [name, dtype, shape] of tensorsOfLayer(width)) add(`model.layers.${layer}.${name}.weight`, dtype, shape);
  }
  const words = Math.floor((byteLength - byteOffset) / byteLengthOf("BF16", [width]));
  if (words > 0) add("model.embed_tokens.weight", "BF16", [words, width]);
  if (tensors.length === 0) throw new Error(`A model of ${byteLength} bytes has no tensors: use at least 1024`);
  return tensors;
}

function tensorsOfLayer(width: number): readonly (readonly [string, string, readonly number[]])[] {
  return [
    ["input_layernorm", "F32", [width]],
    ["post_attention_layernorm", "F32", [width]],
    ...["q_proj", "k_proj", "v_proj", "o_proj"].map((name) => [`self_attn.${name}`, "BF16", [width, width]] as const),
    ["mlp.gate_proj", "BF16", [4 * width, width]],
    ["mlp.up_proj", "BF16", [4 * width, width]],
    ["mlp.down_proj", "BF16", [width, 4 * width]],
  ];
}

function layerByteLength(width: number): number {
  return tensorsOfLayer(width).reduce((sum, [, dtype, shape]) => sum + byteLengthOf(dtype, shape), 0);
}

/** Bytes that look random and are the same each time. */
class PseudoRandomBytes {
  readonly #words = new Uint32Array(pieceByteLength / Uint32Array.BYTES_PER_ELEMENT);
  readonly #bytes = new Uint8Array(this.#words.buffer);

  constructor() {
    let state = 0x2545f491;
    for (let index = 0; index < this.#words.length; index++) {
      // Marsaglia's xorshift32.
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      this.#words[index] = state;
    }
  }

  /** The next bytes, at most a piece. They are valid until the next call. */
  next(byteLength: number): Uint8Array<ArrayBuffer> {
    const words = Math.ceil(byteLength / Uint32Array.BYTES_PER_ELEMENT);
    for (let index = 0; index < words; index++) this.#words[index]! += 0x9e3779b9;
    return this.#bytes.subarray(0, byteLength);
  }
}

/** The header of a file, with its length before it, padded with spaces. */
export function encodeHeader(
  { metadata, tensors }: {
    readonly metadata: ReadonlyMap<string, string>;
    readonly tensors: readonly SampleTensor[];
  },
): Uint8Array<ArrayBuffer> {
  const described = tensors.map(({ name, dtype, shape, byteOffset, byteLength }) =>
    [name, { dtype, shape, data_offsets: [byteOffset, byteOffset + byteLength] }] as const
  );
  const json = JSON.stringify(Object.fromEntries([["__metadata__", Object.fromEntries(metadata)], ...described]));
  const bytes = new TextEncoder().encode(json);
  const encoded = new Uint8Array(8 + Math.ceil(bytes.length / 8) * 8).fill(" ".charCodeAt(0));
  new DataView(encoded.buffer).setBigUint64(0, BigInt(encoded.length - 8), true);
  encoded.set(bytes, 8);
  return encoded;
}

function byteLengthOf(dtype: string, shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, dtype === "F32" ? 4 : 2);
}

async function writeFully(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  let length = 0;
  while (length < bytes.length) {
    const { bytesWritten } = await file.write(bytes, length, bytes.length - length, position + length);
    length += bytesWritten;
  }
}
