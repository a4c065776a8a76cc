/**
 * The texels that coordinates name, and their weights: how the texture unit rounds coordinates, and what its address
 * modes do beyond the edges.
 *
 * @module
 */
import { addressModes } from "./texture_object.ts";

const { wrap, clamp, mirror } = addressModes;
const leastNormal = 2 ** -126;

/**
 * The texels of one dimension that a read uses. An index of -1 stands for the border. An object is reused for the next
 * read, because a read takes less time than to create one.
 */
export class Axis {
  first = 0;
  second = 0;
  /** The weight of the second texel in 256ths. 0 if only the first one is used. */
  fraction = 0;

  /** Uses one texel. */
  setOnly(first: number): void {
    this.first = this.second = first;
    this.fraction = 0;
  }

  /** Uses the texel at a coordinate in texels. */
  setNearest(coordinate: number, extent: number, mode: number): void {
    this.setOnly(addressed(Math.floor(coordinate), extent, mode));
  }

  /** Uses the two texels around a coordinate in texels, to which `shift` is added in 256ths. */
  setLinear(coordinate: number, extent: number, mode: number, shift = 0): void {
    const position = Math.floor(256 * coordinate + 0.5) - 128 + shift;
    const index = Math.floor(position / 256);
    if (mode === clamp && (index < 0 || index >= extent - 1)) return this.setOnly(index < 0 ? 0 : extent - 1);
    this.first = addressed(index, extent, mode);
    this.second = addressed(index + 1, extent, mode);
    this.fraction = Number.isFinite(index) ? position - 256 * index : 0;
  }

  /** Uses the two texels around a coordinate whatever their weights are, each addressed alone. */
  setNeighbours(coordinate: number, extent: number, mode: number): void {
    const index = Math.floor((Math.floor(256 * coordinate + 0.5) - 128) / 256);
    this.first = addressed(index, extent, mode);
    this.second = addressed(index + 1, extent, mode);
    this.fraction = 0;
  }
}

/**
 * Returns a coordinate in texels.
 *
 * @param isNormalized whether the coordinate is 1 at the end of the extent. It then has 21 bits behind the point
 */
export function texelsOf(coordinate: number, extent: number, isNormalized: boolean): number {
  if (Number.isNaN(coordinate) || Math.abs(coordinate) < leastNormal) return 0;
  return isNormalized ? Math.floor(coordinate * 2 ** 21) / 2 ** 21 * extent : coordinate;
}

/**
 * Returns the position of the two texels around a coordinate, to which `shift` is added in 256ths: the index of the first
 * one, and the weight of the other.
 */
export function position(coordinate: number, shift = 0): { readonly index: number; readonly fraction: number } {
  const position = Math.floor(256 * coordinate + 0.5) - 128 + shift;
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

/** Returns the part of a weight that the second of two texels gets, rounded half up. */
export function secondUp(weight: number, fraction: number): number {
  return Math.floor((weight * fraction + 128) / 256);
}

/** Returns the part of a weight that the second of two texels gets, rounded half down. */
export function secondDown(weight: number, fraction: number): number {
  return Math.ceil((weight * fraction - 128) / 256);
}
