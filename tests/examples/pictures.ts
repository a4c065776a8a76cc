/**
 * Reads pictures back: from PNG files, and from what is printed to a terminal.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { inflateSync } from "node:zlib";

/** A picture with three bytes for each pixel. */
export interface ReadPicture {
  readonly width: number;
  readonly height: number;
  readonly pixels: Uint8Array;
}

/** Returns the red, green and blue of a pixel. */
export function colorAt({ width, pixels }: ReadPicture, x: number, y: number): number[] {
  return [...pixels.subarray(3 * (y * width + x), 3 * (y * width + x) + 3)];
}

/** Reads a PNG or an animated PNG as its specification has it, and checks its checksums and its order. */
export function readPng(bytes: Uint8Array): { pictures: ReadPicture[]; delays: number[][] } {
  assertEquals([...bytes.subarray(0, 8)], [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const pictures: ReadPicture[] = [];
  const delays: number[][] = [];
  let [width, height, promised, sequence] = [0, 0, 1, 0];
  const types: string[] = [];
  for (let at = 8; at < bytes.length;) {
    const length = view.getUint32(at);
    const type = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    const begin = at + 8;
    const data = bytes.subarray(begin, begin + length);
    assertEquals(view.getUint32(begin + length), crc(bytes.subarray(at + 4, begin + length)), type);
    if (type === "IHDR") {
      [width, height] = [view.getUint32(begin), view.getUint32(begin + 4)];
      assertEquals([...data.subarray(8)], [8, 2, 0, 0, 0]);
    } else if (type === "acTL") promised = view.getUint32(begin);
    else if (type === "fcTL") {
      assertEquals([0, 4, 8, 12, 16].map((offset) => view.getUint32(begin + offset)), [
        sequence++,
        width,
        height,
        0,
        0,
      ]);
      delays.push([view.getUint16(begin + 20), view.getUint16(begin + 22)]);
    } else if (type === "IDAT") pictures.push(unfiltered(inflateSync(data), width, height));
    else if (type === "fdAT") {
      assertEquals(view.getUint32(begin), sequence++);
      pictures.push(unfiltered(inflateSync(data.subarray(4)), width, height));
    } else assertEquals(type, "IEND");
    types.push(type);
    at = begin + length + 4;
  }
  const frames = Array.from({ length: promised - 1 }, () => ["fcTL", "fdAT"]).flat();
  assertEquals(types, ["IHDR", ...promised > 1 ? ["acTL", "fcTL"] : [], "IDAT", ...frames, "IEND"]);
  return { pictures, delays };
}

function crc(bytes: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of bytes) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? value >>> 1 ^ 0xedb88320 : value >>> 1;
  }
  return ~value >>> 0;
}

function unfiltered(rows: Uint8Array, width: number, height: number): ReadPicture {
  const length = 3 * width;
  assertEquals(rows.length, (length + 1) * height);
  const pixels = new Uint8Array(length * height);
  for (let y = 0; y < height; y++) {
    assertEquals(rows[y * (length + 1)], 4);
    for (let x = 0; x < length; x++) {
      const left = x < 3 ? 0 : pixels[y * length + x - 3]!;
      const up = y === 0 ? 0 : pixels[(y - 1) * length + x]!;
      const corner = x < 3 || y === 0 ? 0 : pixels[(y - 1) * length + x - 3]!;
      const guess = left + up - corner;
      const [predicted] = [left, up, corner].toSorted((a, b) => Math.abs(guess - a) - Math.abs(guess - b));
      pixels[y * length + x] = rows[y * (length + 1) + 1 + x]! + predicted!;
    }
  }
  return { width, height, pixels };
}

/** Reads lines of half blocks back, as a terminal shows them. Missing pixels, under an odd last row, are -1. */
export function readHalfBlocks(lines: readonly string[]): number[][][] {
  return lines.flatMap((line) => {
    const rows: [number[][], number[][]] = [[], []];
    let [upper, lower] = [[-1], [-1]];
    // deno-lint-ignore no-control-regex
    for (const [all, codes] of line.matchAll(/\x1b\[([\d;]*)m|▀/g)) {
      const [kind, , ...color] = (codes ?? "").split(";").map(Number);
      if (all === "▀") rows[0].push(upper), rows[1].push(lower);
      else if (kind === 38) upper = color;
      else if (kind === 48) lower = color;
      else if (kind === 49) lower = [-1];
      else assert(kind === 0, all);
    }
    return rows;
  });
}
