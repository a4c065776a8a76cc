/**
 * The faces of cubemaps: the face in a direction, and the texels beyond the edges of a face.
 *
 * @module
 */

/** A point on a face: coordinates from 0 to 1. */
export interface FacePoint {
  readonly face: number;
  readonly s: number;
  readonly t: number;
}

/**
 * Returns the point of a cube in a direction. The faces are +x, -x, +y, -y, +z and -z.
 *
 * The texture unit multiplies by an approximation of the reciprocal of the longest part. Here the reciprocal is rounded
 * correctly, so that coordinates may differ in their last bit.
 */
export function facePoint(x: number, y: number, z: number): FacePoint {
  const longest = [x, y, z].reduce((most, part) => Math.max(most, Number.isNaN(part) ? 0 : Math.abs(part)), 0);
  const scale = Math.fround(1 / longest);
  const [sx, sy, sz] = [x, y, z].map((part) => Math.fround(part * scale)) as [number, number, number];
  const [ax, ay, az] = [sx, sy, sz].map(Math.abs) as [number, number, number];
  const widest = Number.isNaN(ax) ? ay : Number.isNaN(ay) ? ax : Math.max(ax, ay);
  if (az >= widest) return sz < 0 ? pointOf(5, [-sx, -sy, az]) : pointOf(4, [sx, -sy, az]);
  if (ay >= ax) return sy < 0 ? pointOf(3, [sx, -sz, ay]) : pointOf(2, [sx, sz, ay]);
  return sx < 0 ? pointOf(1, [sz, -sy, ax]) : pointOf(0, [-sz, -sy, ax]);
}

function pointOf(face: number, [s, t, major]: readonly [s: number, t: number, major: number]): FacePoint {
  const coordinate = (part: number) => {
    const scaled = Math.fround(part / major);
    return Number.isNaN(scaled) ? 0.5 : Math.fround(Math.fround(scaled + 1) / 2);
  };
  return { face, s: coordinate(s), t: coordinate(t) };
}

/** The directions of each face: that of its middle, and those in which the two coordinates grow. */
const directions = [
  { middle: [1, 0, 0], s: [0, 0, -1], t: [0, -1, 0] },
  { middle: [-1, 0, 0], s: [0, 0, 1], t: [0, -1, 0] },
  { middle: [0, 1, 0], s: [1, 0, 0], t: [0, 0, 1] },
  { middle: [0, -1, 0], s: [1, 0, 0], t: [0, 0, -1] },
  { middle: [0, 0, 1], s: [1, 0, 0], t: [0, -1, 0] },
  { middle: [0, 0, -1], s: [-1, 0, 0], t: [0, -1, 0] },
] as const;

/** A vector of three dimensions. */
export type Direction = readonly [x: number, y: number, z: number];

/** How the gradients of a direction look on the face that it leads to. */
export interface FaceGradients {
  /** The gradients on the face, from which the cube is unfolded: 2 is its extent. */
  readonly dx: readonly [number, number];
  readonly dy: readonly [number, number];
  /** Whether one of the gradients leads to another face, and whether to the opposite one. */
  readonly crossesEdge: boolean;
  readonly crossesCube: boolean;
}

/** Returns what the gradients of a direction are on its face: the differences to the points to which they lead. */
export function faceGradients(direction: Direction, dx: Direction, dy: Direction): FaceGradients {
  const face = faceOf(direction);
  const from = unfolded(direction, face);
  const [first, second] = [dx, dy].map((gradient) => {
    const to = direction.map((part, index) => part + gradient[index]!) as unknown as Direction;
    const [s, t] = unfolded(to, face);
    return { gradient: [s - from[0], t - from[1]] as const, face: faceOf(to) };
  }) as [{ gradient: readonly [number, number]; face: number }, { gradient: readonly [number, number]; face: number }];
  return {
    dx: first.gradient,
    dy: second.gradient,
    crossesEdge: first.face !== face || second.face !== face,
    crossesCube: (first.face ^ 1) === face || (second.face ^ 1) === face,
  };
}

function faceOf([x, y, z]: Direction): number {
  const [ax, ay, az] = [Math.abs(x), Math.abs(y), Math.abs(z)];
  if (az >= Math.max(ax, ay)) return z < 0 ? 5 : 4;
  return ay >= ax ? (y < 0 ? 3 : 2) : x < 0 ? 1 : 0;
}

/** Returns the point of a direction in the plane of a face, into which the faces beside it are turned. */
function unfolded(direction: Direction, face: number): readonly [s: number, t: number] {
  const longest = Math.max(...direction.map(Math.abs));
  const point = direction.map((part) => part / longest);
  const { middle, s, t } = directions[face]!;
  const [across, along, depth] = [dot(point, s), dot(point, t), dot(point, middle)];
  const { middle: other } = directions[faceOf(direction)]!;
  return [dot(other, s) === 0 ? across : across * (2 - depth), dot(other, t) === 0 ? along : along * (2 - depth)];
}

/** A texel of a cubemap. */
export interface FaceTexel {
  readonly face: number;
  readonly x: number;
  readonly y: number;
}

/**
 * Returns a texel of a face or, beyond one of its edges, that of the face which is next to it there. Undefined beyond
 * a corner, where three faces meet.
 */
export function texelOfCube(
  face: number,
  [x, y]: readonly [x: number, y: number],
  extent: number,
): FaceTexel | undefined {
  const isBesideX = x < 0 || x >= extent, isBesideY = y < 0 || y >= extent;
  if (!isBesideX && !isBesideY) return { face, x, y };
  if (isBesideX && isBesideY) return undefined;
  // The middle of the texel, with the edges at -extent and extent. Beyond an edge the surface turns by a right angle.
  const { middle, s, t } = directions[face]!;
  const across = isBesideX ? (x < 0 ? -1 : 1) : y < 0 ? -1 : 1;
  const along = 2 * (isBesideX ? y : x) + 1 - extent;
  const [turned, straight] = isBesideX ? [s, t] : [t, s];
  const depth = extent - 1;
  const point = [0, 1, 2].map((part) =>
    turned[part]! * across * extent + middle[part]! * depth + straight[part]! * along
  );
  const next = directions.findIndex(({ middle }) => dot(middle, turned) === across);
  const { s: nextS, t: nextT } = directions[next]!;
  return { face: next, x: (dot(point, nextS) + extent - 1) / 2, y: (dot(point, nextT) + extent - 1) / 2 };
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a[0]! * b[0]! + a[1]! * b[1]! + a[2]! * b[2]!;
}
