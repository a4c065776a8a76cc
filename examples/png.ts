/**
 * Writes pictures as PNG, and several pictures as an animated PNG, which browsers play.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { crc32, deflateSync } from "node:zlib";

/** A picture in host memory. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  /** Four bytes for each pixel, row by row from the top: red, green, blue, and one that is ignored. */
  readonly pixels: Uint8Array;
}

const signature = [0x89, ...Buffer.from("PNG\r\n"), 0x1a, 0x0a];

/**
 * Encodes one picture as a PNG, or several of one size as an animated PNG that repeats forever.
 *
 * @param delay Milliseconds from one picture to the next.
 */
export function encodePng(pictures: readonly Picture[], { delay = 50 }: { delay?: number } = {}): Uint8Array {
  const [{ width, height }] = pictures as [Picture];
  const isAnimated = pictures.length > 1;
  const chunks = [chunk("IHDR", words(width, height), [8, 2, 0, 0, 0])]; // 8 bits for each of red, green and blue
  if (isAnimated) chunks.push(chunk("acTL", words(pictures.length, 0)));
  let sequence = 0;
  for (const [index, picture] of pictures.entries()) {
    const data = deflateSync(filteredRows(picture), { level: 9 });
    const milliseconds = [delay >> 8, delay & 0xff, 1000 >> 8, 1000 & 0xff];
    if (isAnimated) chunks.push(chunk("fcTL", words(sequence++, width, height, 0, 0), milliseconds, [0, 0]));
    // The first picture is what a program shows that knows no animations.
    chunks.push(index === 0 ? chunk("IDAT", data) : chunk("fdAT", words(sequence++), data));
  }
  return Buffer.concat([new Uint8Array(signature), ...chunks, chunk("IEND")]);
}

function chunk(type: string, ...parts: ArrayLike<number>[]): Uint8Array {
  const data = Buffer.concat([Buffer.from(type), ...parts.map((part) => Uint8Array.from(part))]);
  return Buffer.concat([words(data.length - 4), data, words(crc32(data))]);
}

/** Big-endian words of 32 bits. */
function words(...values: number[]): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(4 * values.length));
  values.forEach((value, index) => bytes.setUint32(4 * index, value));
  return new Uint8Array(bytes.buffer);
}

/** The rows as PNG stores them: each byte less what the Paeth filter predicts from its neighbors. */
function filteredRows({ width, height, pixels }: Picture): Uint8Array {
  const rowLength = 1 + 3 * width;
  const rows = new Uint8Array(rowLength * height);
  for (let y = 0; y < height; y++) {
    rows[y * rowLength] = 4; // Paeth
    for (let x = 0; x < width; x++) {
      for (let color = 0; color < 3; color++) {
        const at = 4 * (y * width + x) + color;
        const left = x > 0 ? pixels[at - 4]! : 0;
        const up = y > 0 ? pixels[at - 4 * width]! : 0;
        const corner = x > 0 && y > 0 ? pixels[at - 4 * width - 4]! : 0;
        rows[y * rowLength + 1 + 3 * x + color] = pixels[at]! - nearest(left + up - corner, left, up, corner);
      }
    }
  }
  return rows;
}

function nearest(value: number, left: number, up: number, corner: number): number {
  const [toLeft, toUp, toCorner] = [Math.abs(value - left), Math.abs(value - up), Math.abs(value - corner)];
  return toLeft <= toUp && toLeft <= toCorner ? left : toUp <= toCorner ? up : corner;
}
