import type { CorpusProgram } from "../corpus_program.ts";

const width = 80;
const height = 60;
const limit = 200;

/**
 * Returns the number of steps until a point diverges. Every result is rounded by `round`: to single precision, or not
 * at all, because JavaScript's numbers are doubles.
 */
function steps(column: number, line: number, round: (value: number) => number): number {
  const cReal = round(-2.25 + round(round(3 * column) / width));
  const cImaginary = round(-1.25 + round(round(2.5 * line) / height));
  let [real, imaginary] = [0, 0];
  for (let step = 0; step < limit; step++) {
    const realSquare = round(real * real);
    const imaginarySquare = round(imaginary * imaginary);
    if (round(realSquare + imaginarySquare) > 4) return step;
    imaginary = round(round(round(2 * real) * imaginary) + cImaginary);
    real = round(round(realSquare - imaginarySquare) + cReal);
  }
  return limit;
}

const image = (round: (value: number) => number): Uint32Array =>
  Uint32Array.from({ length: width * height }, (_, index) => steps(index % width, Math.floor(index / width), round));

export const program: CorpusProgram = {
  covers: "loops of float arithmetic that threads leave at different times, over blocks of two dimensions",
  buffers: () => ({ single: new Uint32Array(width * height), wide: new Uint32Array(width * height) }),
  launches: [{
    kernel: "mandelbrot",
    grid: [5, 8, 1],
    block: [16, 8, 1],
    arguments: ["single", "wide", width, height, limit],
  }],
  expected: () => ({ single: image(Math.fround), wide: image((value) => value) }),
};
