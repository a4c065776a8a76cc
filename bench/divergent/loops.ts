/**
 * The kernels of this folder as loops in JavaScript, of one thread.
 *
 * They are written for speed: typed arrays, 32-bit integers where the kernel has them, and `Math.fround` where it
 * rounds to 32 bits. Numbers are added in the kernel's order, so that the results are equal bit for bit.
 *
 * @module
 */

const { fround, imul } = Math;

/** `kernels/mandelbrot.cu` */
export function mandelbrot(
  out: Uint32Array,
  { width, height, left, top, step, limit }: Plane,
): void {
  const [leftFloat, topFloat, stepFloat] = [fround(left), fround(top), fround(step)];
  for (let row = 0; row < height; row++) {
    const imaginary = fround(topFloat + fround(stepFloat * fround(row)));
    for (let column = 0; column < width; column++) {
      const real = fround(leftFloat + fround(stepFloat * fround(column)));
      let x = fround(0), y = fround(0), xSquared = fround(0), ySquared = fround(0);
      let iterations = 0;
      while (iterations < limit && fround(xSquared + ySquared) <= 4) {
        y = fround(fround(fround(x + x) * y) + imaginary);
        x = fround(fround(xSquared - ySquared) + real);
        xSquared = fround(x * x);
        ySquared = fround(y * y);
        iterations++;
      }
      out[row * width + column] = iterations;
    }
  }
}

/** A part of the complex plane: the pixels, the first one's number, the distance of two pixels, and the iterations. */
export interface Plane {
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly top: number;
  readonly step: number;
  readonly limit: number;
}

export function mandelbrotDoubles(out: Uint32Array, { width, height, left, top, step, limit }: Plane): void {
  for (let row = 0; row < height; row++) {
    const imaginary = top + step * row;
    for (let column = 0; column < width; column++) {
      const real = left + step * column;
      let x = 0, y = 0, xSquared = 0, ySquared = 0, iterations = 0;
      while (iterations < limit && xSquared + ySquared <= 4) {
        y = (x + x) * y + imaginary;
        x = xSquared - ySquared + real;
        xSquared = x * x;
        ySquared = y * y;
        iterations++;
      }
      out[row * width + column] = iterations;
    }
  }
}

export function collatz(starts: Uint32Array, out: Uint32Array): void {
  for (let i = 0; i < out.length; i++) {
    let number = starts[i]!, steps = 0;
    while (number !== 1) {
      number = (number & 1) === 0 ? number >>> 1 : (3 * number + 1) >>> 0;
      steps++;
    }
    out[i] = steps;
  }
}

export function binarySearch(sorted: Uint32Array, keys: Uint32Array, out: Uint32Array): void {
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i]!;
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (sorted[middle]! < key) low = middle + 1;
      else high = middle;
    }
    out[i] = low;
  }
}

export function commonDivisor(first: Uint32Array, second: Uint32Array, out: Uint32Array): void {
  for (let i = 0; i < out.length; i++) {
    let a = first[i]!, b = second[i]!;
    while (b !== 0) {
      const rest = (a >>> 0) % (b >>> 0);
      a = b;
      b = rest;
    }
    out[i] = a;
  }
}

export function newton(numbers: Float32Array, out: Float32Array): void {
  const tolerance = fround(1e-6);
  for (let i = 0; i < numbers.length; i++) {
    const number = numbers[i]!;
    let root = number, change = fround(0);
    do {
      const next = fround(fround(0.5) * fround(root + fround(number / root)));
      change = Math.abs(fround(next - root));
      root = next;
    } while (change > fround(tolerance * root));
    out[i] = root;
  }
}

export function matchText(text: Uint8Array, pattern: Uint8Array, out: Uint8Array): void {
  const last = text.length - pattern.length;
  for (let i = 0; i <= last; i++) {
    let matched = 0;
    while (matched < pattern.length && text[i + matched] === pattern[matched]) matched++;
    out[i] = matched;
  }
}

export function traceSpheres(directions: Float32Array, spheres: Float32Array, out: Float32Array): void {
  for (let i = 0; i < out.length; i++) {
    const dx = directions[3 * i]!, dy = directions[3 * i + 1]!, dz = directions[3 * i + 2]!;
    let nearest = Infinity;
    for (let s = 0; s < spheres.length; s += 4) {
      const x = spheres[s]!, y = spheres[s + 1]!, z = spheres[s + 2]!;
      const along = fround(fround(fround(x * dx) + fround(y * dy)) + fround(z * dz));
      if (along <= 0) continue;
      const square = fround(fround(fround(x * x) + fround(y * y)) + fround(z * z));
      const discriminant = fround(fround(fround(along * along) - square) + spheres[s + 3]!);
      if (discriminant < 0) continue;
      const distance = fround(along - fround(Math.sqrt(discriminant)));
      if (distance < nearest) nearest = distance;
    }
    out[i] = nearest;
  }
}

export function queens(out: Uint32Array, size: number): void {
  const columns = new Uint32Array(18), left = new Uint32Array(18), right = new Uint32Array(18);
  const free = new Uint32Array(18);
  const all = (1 << size) - 1;
  for (let i = 0; i < size * size; i++) {
    const first = 1 << (i / size | 0), second = 1 << i % size;
    let solutions = 0;
    if (((first | first << 1 | first >> 1) & second) === 0) {
      let depth = 0;
      columns[0] = first | second;
      left[0] = (first << 1 | second) << 1;
      right[0] = (first >> 1 | second) >> 1;
      free[0] = all & ~(columns[0] | left[0] | right[0]);
      while (depth >= 0) {
        const choices = free[depth]!;
        if (choices === 0) {
          depth--;
          continue;
        }
        const choice = choices & -choices;
        free[depth] = choices ^ choice;
        const taken = columns[depth]! | choice;
        if (taken === all) {
          solutions++;
          continue;
        }
        const nextLeft = (left[depth]! | choice) << 1, nextRight = (right[depth]! | choice) >>> 1;
        depth++;
        columns[depth] = taken;
        left[depth] = nextLeft;
        right[depth] = nextRight;
        free[depth] = all & ~(taken | nextLeft | nextRight);
      }
    }
    out[i] = solutions;
  }
}

/** The rows of a sparse matrix: where each begins, and the columns and values of its elements. */
export interface SparseRows {
  readonly begins: Uint32Array;
  readonly columns: Uint32Array;
  readonly values: Float32Array;
}

export function sparseProduct({ begins, columns, values }: SparseRows, x: Float32Array, out: Float32Array): void {
  for (let row = 0; row < out.length; row++) {
    const end = begins[row + 1]!;
    let sum = fround(0);
    for (let k = begins[row]!; k < end; k++) sum = fround(sum + fround(values[k]! * x[columns[k]!]!));
    out[row] = sum;
  }
}

/** A pseudorandom 32-bit number for each index: the same in every run. */
export function scramble(index: number): number {
  let bits = imul(index + 1, 0x9e3779b1);
  bits = imul(bits ^ bits >>> 15, 0x85ebca6b);
  return (bits ^ bits >>> 13) >>> 0;
}
