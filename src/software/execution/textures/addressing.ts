/**
 * The texels that coordinates name, and their weights: how the texture unit rounds coordinates, and what its address
 * modes do beyond the edges.
 *
 * @module
 */
import { addressModes } from "./texture_object.ts";

/** The texels of one dimension that a read uses. An index of -1 stands for the border. */
export interface Axis {
  readonly first: number;
  readonly second: number;
  /** The weight of the second texel in 256ths. 0 if only the first one is used. */
  readonly fraction: number;
}

const { wrap, clamp, mirror } = addressModes;
const leastNormal = 2 ** -126;

/**
 * Returns a coordinate in texels.
 *
 * @param isNormalized whether the coordinate is 1 at the end of the extent. It then has 21 bits behind the point
 */
export function texelsOf(coordinate: number, extent: number, isNormalized: boolean): number {
  if (Number.isNaN(coordinate) || Math.abs(coordinate) < leastNormal) return 0;
  return isNormalized ? Math.floor(coordinate * 2 ** 21) / 2 ** 21 * extent : coordinate;
}

/** Returns the texel at a coordinate in texels. */
export function nearest(coordinate: number, extent: number, mode: number): number {
  return addressed(Math.floor(coordinate), extent, mode);
}

/** Returns the two texels around a coordinate in texels. */
export function linear(coordinate: number, extent: number, mode: number): Axis {
  const position = Math.floor(256 * coordinate + 0.5) - 128;
  const index = Math.floor(position / 256);
  const isFinite = Number.isFinite(index);
  if (mode === clamp) {
    if (index < 0) return { first: 0, second: 0, fraction: 0 };
    if (index >= extent - 1) return { first: extent - 1, second: extent - 1, fraction: 0 };
  }
  return {
    first: addressed(index, extent, mode),
    second: addressed(index + 1, extent, mode),
    fraction: isFinite ? position - 256 * index : 0,
  };
}

/** Returns the two texels around a coordinate whatever their weights are, each addressed alone. */
export function neighbours(coordinate: number, extent: number, mode: number): Axis {
  const position = Math.floor(256 * coordinate + 0.5) - 128;
  const index = Math.floor(position / 256);
  return { first: addressed(index, extent, mode), second: addressed(index + 1, extent, mode), fraction: 0 };
}

/** Returns the position of the two texels around a coordinate: the index of the first one, and the weight of the other. */
export function position(coordinate: number): { readonly index: number; readonly fraction: number } {
  const position = Math.floor(256 * coordinate + 0.5) - 128;
  const index = Math.floor(position / 256);
  return { index, fraction: Number.isFinite(index) ? position - 256 * index : 0 };
}

/** Returns a coordinate in texels. An infinite one has no place in a repeated texture, and counts as 0 there. */
export function withinRepeated(coordinate: number, mode: number): number {
  return (mode === wrap || mode === mirror) && !Number.isFinite(coordinate) ? 0 : coordinate;
}

/** Returns the texel that an index stands for; -1 for the border. */
function addressed(index: number, extent: number, mode: number): number {
  if (index >= 0 && index < extent) return index;
  switch (mode) {
    case wrap:
      return modulo(index, extent);
    case mirror: {
      const within = modulo(index, 2 * extent);
      return within < extent ? within : 2 * extent - 1 - within;
    }
    case clamp:
      return index < 0 ? 0 : extent - 1;
    default:
      return -1;
  }
}

function modulo(index: number, extent: number): number {
  return (index % extent + extent) % extent;
}

/** Divides a weight by the two factors of a fraction in 256ths. The second part is rounded half up. */
export function dividedUp(weight: number, fraction: number): readonly [first: number, second: number] {
  const second = Math.floor((weight * fraction + 128) / 256);
  return [weight - second, second];
}

/** Divides a weight by the two factors of a fraction in 256ths. The second part is rounded half down. */
export function dividedDown(weight: number, fraction: number): readonly [first: number, second: number] {
  const second = Math.ceil((weight * fraction - 128) / 256);
  return [weight - second, second];
}
