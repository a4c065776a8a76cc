/**
 * Reads textures for kernels. The rules are those of an H100, found by comparing recorded results: how coordinates and
 * weights are rounded, how texels are summed, and what lies beyond the edges. `docs/textures.md` lists what is known to
 * differ.
 *
 * @module
 */
import {
  decodeTextureOperation,
  exchangeWords,
  type Geometry,
  type TextureOperation,
  textureQueries,
} from "../../abi/textures.ts";
import { Axis, position, secondDown, secondUp, texelsOf, withinRepeated } from "./addressing.ts";
import { type Coverage, coverageOf, greatestCoverage, type Samples, samplesFor, stepOf } from "./anisotropy.ts";
import { BoundTexture, type TexelLevel, TexelMemory } from "./bound_texture.ts";
import { type Direction, faceGradients, facePoint, texelOfCube } from "./cubemaps.ts";
import { Footprint } from "./footprint.ts";
import { nearestHalf } from "./texel_format.ts";
import { addressModes, type TextureObject, TextureSlots } from "./texture_object.ts";

/**
 * A place in a texture: coordinates in each dimension, the layer or the face, and the face of a seamless cubemap, if it
 * is one. It is reused for the next read.
 */
interface Place {
  x: number;
  y: number;
  z: number;
  slice: number;
  face: number | undefined;
}

/** The level that a kernel reads if it names none: the least one. */
const leastLod = -32;
const facesOfCube = 6;
const whole = 256;

/** Reads textures for the kernels of one thread. */
export class TextureUnit {
  readonly memory: TexelMemory;
  readonly slots: TextureSlots;
  readonly #integers: Int32Array;
  readonly #floats: Float32Array;
  readonly #footprint: Footprint;
  readonly #bound = new Map<number, BoundTexture>();
  readonly #operations = new Map<number, TextureOperation>();
  readonly #place: Place = { x: 0, y: 0, z: 0, slice: 0, face: undefined };
  readonly #x = new Axis();
  readonly #y = new Axis();
  readonly #z = new Axis();

  constructor(memory: WebAssembly.Memory) {
    this.memory = new TexelMemory(memory);
    this.slots = new TextureSlots(memory);
    this.#integers = new Int32Array(memory.buffer);
    this.#floats = new Float32Array(memory.buffer);
    this.#footprint = new Footprint(this.memory);
  }

  /** Returns the texture or surface whose handle an exchange contains. Undefined if there is none. */
  boundAt(exchange: number): BoundTexture | undefined {
    const at = exchange / 4 + exchangeWords.handle;
    const handle = this.#integers[at]!;
    if (this.#integers[at + 1] !== 0 || !this.slots.has(handle)) return undefined;
    let bound = this.#bound.get(handle);
    if (bound === undefined) {
      // Handles are not used again: what is bound to those of destroyed objects is of no more use.
      for (const old of this.#bound.keys()) if (!this.slots.has(old)) this.#bound.delete(old);
      this.#bound.set(handle, bound = new BoundTexture(this.slots.read(handle)));
    }
    return bound;
  }

  /** Carries out an instruction whose operands are in an exchange. Returns false if the handle is not a texture's. */
  read(exchange: number, encoded: number): boolean {
    const texture = this.boundAt(exchange);
    if (texture === undefined || texture.object.isSurface === 1) return false;
    let operation = this.#operations.get(encoded);
    if (operation === undefined) this.#operations.set(encoded, operation = decodeTextureOperation(encoded));
    this.#read(texture, operation, exchange / 4);
    if (operation.results !== "words") this.#narrow(operation.results === "pairs", exchange / 4 + exchangeWords.data);
    return true;
  }

  /** Calls `visit` with the offset and the size of each texel that the last read has used. */
  forEachTexel(exchange: number, visit: (offset: number, bytes: number) => void): void {
    const bytes = this.boundAt(exchange)?.texelBytes;
    if (bytes !== undefined) this.#footprint.forEachTexel((offset) => visit(offset, bytes));
  }

  /** Returns an attribute of a texture or surface. Undefined if the handle is invalid. */
  query(exchange: number, query: number, level: number): number | undefined {
    const bound = this.boundAt(exchange);
    if (bound === undefined) return undefined;
    const name = textureQueries[query]!;
    const { object, levels } = bound;
    const shown = levels[level];
    if (shown === undefined) return 0;
    if (name === "width") return shown.width;
    const isTexture = object.isSurface === 0;
    // The layers of rows are their height.
    if (object.dimensions === 1) {
      return name === "depth" ? 0 : object.isLayered === 1 ? object.visibleLayers : Number(isTexture);
    }
    if (name === "height") return shown.height;
    // The depth of cubemaps counts faces for surfaces, and cubemaps in layers for textures.
    if (object.isCubemap === 1 && isTexture) return object.isLayered === 1 ? object.visibleLayers / facesOfCube : 0;
    if (object.isLayered === 1 || object.isCubemap === 1) return object.visibleLayers;
    return object.dimensions === 3 ? shown.depth : 0;
  }

  #narrow(arePairs: boolean, at: number): void {
    const halves = [0, 1, 2, 3].map((index) => nearestHalf(this.#integers[at + index]! >>> 0));
    if (!arePairs) return halves.forEach((half, index) => this.#integers[at + index] = half);
    this.#integers[at] = halves[0]! | halves[1]! << 16;
    this.#integers[at + 1] = halves[2]! | halves[3]! << 16;
  }

  #read(texture: BoundTexture, operation: TextureOperation, at: number): void {
    const { object } = texture;
    const { isFetch, read } = operation;
    const results = at + exchangeWords.data;
    this.#footprint.clear();
    if (isFetch || object.isLinear === 1) {
      const isInside = this.#fetch(texture, operation, at);
      for (let channel = 0; channel < 4; channel++) {
        this.#integers[results + channel] = isInside ? this.#footprint.point(texture, channel) : 0;
      }
      return;
    }
    const place = this.#placeOf(texture, operation, at);
    if (read === "gather") {
      this.#gather(texture, place);
      for (let index = 0; index < 4; index++) {
        this.#integers[results + index] = this.#footprint.texel(texture, operation.channel, index);
      }
      return;
    }
    const coverage = this.#coverageOf(texture, operation, at);
    const detail = this.#detailOf(texture, operation, at, coverage);
    const takesSamples = coverage !== undefined && coverage.ratio > 0;
    if (takesSamples) this.#addSamples(texture, place, operation, at, detail, coverage);
    const isSummed = takesSamples || this.#addLevels(texture, place, operation, at, detail);
    for (let channel = 0; channel < 4; channel++) {
      this.#integers[results + channel] = isSummed
        ? this.#footprint.sum(texture, channel)
        : this.#footprint.point(texture, channel);
    }
  }

  /** Adds the texels of the samples of anisotropic filtering. */
  #addSamples(
    texture: BoundTexture,
    place: Place,
    operation: TextureOperation,
    at: number,
    detail: number,
    { ratio, right, down }: Coverage,
  ): void {
    const { object, levels } = texture;
    const { index, fraction } = levelsFor(object, detail);
    this.#footprint.clear(4 * whole);
    if (fraction < whole) {
      const samples = samplesFor(ratio, whole - fraction);
      const step = [stepOf(right, samples, fraction), stepOf(down, samples, fraction)] as const;
      this.#addSamplesOf(texture, place, operation, at, levels[index]!, samples, step);
    }
    if (fraction === 0) return;
    const samples = samplesFor(ratio + fraction - whole, fraction);
    const step = [stepOf(right, samples, 0), stepOf(down, samples, 0)] as const;
    this.#addSamplesOf(texture, place, operation, at, levels[index + 1]!, samples, step);
  }

  #addSamplesOf(
    { object }: BoundTexture,
    place: Place,
    { geometry, hasOffsets }: TextureOperation,
    at: number,
    level: TexelLevel,
    { distances, weights, scale }: Samples,
    [right, down]: readonly [right: number, down: number],
  ): void {
    const { x, y, slice, face } = place;
    const isNormalized = object.hasNormalizedCoordinates === 1 || shapeOf(geometry).isCube;
    const offset = (dimension: number) => hasOffsets ? this.#integers[at + exchangeWords.offsets + dimension]! : 0;
    for (const [index, distance] of distances.entries()) {
      const weight = weights[index]!;
      // Half a 64th is two 256ths.
      const across = 2 * distance * right, along = 2 * distance * down;
      if (face !== undefined) {
        this.#addSeamless(object, place, level, { weight, scale, across, along });
        continue;
      }
      setAxis(this.#x, x, offset(0), level.width, object.addressX, isNormalized, true, across);
      const lower = geometry === "1d" ? 0 : offset(1);
      if (geometry === "a1d") this.#y.setOnly(0);
      else setAxis(this.#y, y, lower, level.height, object.addressY, isNormalized, true, along);
      this.#footprint.beginPlane();
      this.#footprint.addCross(level, slice, this.#x, this.#y, weight, scale);
    }
  }

  /** Adds the texel at integer coordinates. Returns false if there is none. */
  #fetch(texture: BoundTexture, { geometry, read, isFetch, hasOffsets }: TextureOperation, at: number): boolean {
    const { object } = texture;
    const { isLayered, first, count } = shapeOf(geometry);
    const numberAt = (index: number) =>
      isFetch ? this.#integers[at + exchangeWords.coordinates + index]! : Math.floor(
        this.#floats[at + exchangeWords.coordinates + index]!,
      );
    const isLeveled = read === "level";
    const layer = isLayered ? this.#integers[at + exchangeWords.coordinates]! >>> 0 : 0;
    if (layer >= object.visibleLayers) return false;
    // A one-dimensional array has no integer coordinates; only linear memory has them.
    if (geometry === "1d" && object.isLinear === 0 && !isLeveled) return false;
    const index = isLeveled ? this.#integers[at + exchangeWords.level]! : 0;
    const level = texture.levels[index];
    if (level === undefined) return false;
    const extents = [level.width, level.height, level.depth];
    const texel = [0, 0, 0];
    for (let dimension = 0; dimension < count; dimension++) {
      const offset = hasOffsets ? this.#integers[at + exchangeWords.offsets + dimension]! : 0;
      const wanted = numberAt(first + dimension) + offset, extent = extents[dimension]!;
      const isInside = wanted >= 0 && wanted < extent;
      if (!isInside && !isLeveled) return false;
      texel[dimension] = isInside ? wanted : wanted < 0 ? 0 : extent - 1;
    }
    const [x, y, z] = texel as [number, number, number];
    const slice = isLayered ? object.firstLayer + layer : z;
    this.#footprint.add(level, slice, x, y, whole);
    return true;
  }

  /** Returns the place that coordinates name. */
  #placeOf({ object }: BoundTexture, { geometry }: TextureOperation, at: number): Place {
    const { isLayered, isCube, first, count } = shapeOf(geometry);
    const place = this.#place;
    const from = at + exchangeWords.coordinates + first;
    place.x = this.#floats[from]!;
    place.y = count > 1 ? this.#floats[from + 1]! : 0;
    place.z = count > 2 ? this.#floats[from + 2]! : 0;
    place.face = undefined;
    const layers = isCube ? object.visibleLayers / facesOfCube : object.visibleLayers;
    const layer = isLayered ? Math.min(this.#integers[at + exchangeWords.coordinates]! >>> 0, layers - 1) : 0;
    place.slice = object.firstLayer + (isCube ? layer * facesOfCube : layer);
    if (!isCube) return place;
    const { face, s, t } = facePoint(place.x, place.y, place.z);
    place.x = s;
    place.y = t;
    place.slice += face;
    if (object.isSeamless === 1) place.face = face;
    return place;
  }

  /** Adds the texels of the levels that a read uses. Returns whether they are summed, not only passed on. */
  #addLevels(texture: BoundTexture, place: Place, operation: TextureOperation, at: number, detail: number): boolean {
    const { object, levels } = texture;
    const { index, fraction } = levelsFor(object, detail);
    if (fraction < whole) this.#addLevel(texture, place, operation, at, levels[index]!, whole - fraction);
    if (fraction > 0) this.#addLevel(texture, place, operation, at, levels[index + 1]!, fraction);
    return object.isFiltered === 1 || object.filtersLevels === 1 && levels.length > 1;
  }

  #addLevel(
    { object }: BoundTexture,
    place: Place,
    { geometry, hasOffsets }: TextureOperation,
    at: number,
    level: TexelLevel,
    weight: number,
  ): void {
    if (place.face !== undefined) return this.#addSeamless(object, place, level, { weight });
    const isNormalized = object.hasNormalizedCoordinates === 1 || shapeOf(geometry).isCube;
    const isFiltered = object.isFiltered === 1;
    const offsets = at + exchangeWords.offsets;
    const x = this.#x, y = this.#y;
    const right = hasOffsets ? this.#integers[offsets]! : 0;
    setAxis(x, place.x, right, level.width, object.addressX, isNormalized, isFiltered);
    // A texture of one dimension has one row, and is read at its upper edge. Only layers have no second dimension.
    if (geometry === "a1d" || geometry === "1d" && !isFiltered) y.setOnly(0);
    else {
      const down = hasOffsets && geometry !== "1d" ? this.#integers[offsets + 1]! : 0;
      setAxis(y, place.y, down, level.height, object.addressY, isNormalized, isFiltered);
    }
    if (geometry !== "3d") return this.#footprint.addPlane(level, place.slice, x, y, weight);
    const z = this.#z;
    const back = hasOffsets ? this.#integers[offsets + 2]! : 0;
    setAxis(z, place.z, back, level.depth, object.addressZ, isNormalized, isFiltered);
    const far = secondDown(weight, z.fraction);
    this.#footprint.addPlane(level, z.first, x, y, weight - far);
    if (z.fraction !== 0) this.#footprint.addPlane(level, z.second, x, y, far);
  }

  /** Adds the texels around a point of a cubemap whose faces are joined at their edges. */
  #addSeamless(
    object: TextureObject,
    { x: s, y: t, slice, face = 0 }: Place,
    level: TexelLevel,
    { weight, scale = 1, across = 0, along = 0 }: { weight: number; scale?: number; across?: number; along?: number },
  ): void {
    const extent = level.width;
    const [u, v] = [texelsOf(s, extent, true), texelsOf(t, extent, true)];
    const isFiltered = object.isFiltered === 1;
    const x = isFiltered ? position(u, across) : { index: Math.min(Math.floor(u), extent - 1), fraction: 0 };
    const y = isFiltered ? position(v, along) : { index: Math.min(Math.floor(v), extent - 1), fraction: 0 };
    const right = secondUp(weight, x.fraction), left = weight - right;
    const lowerLeft = secondDown(left, y.fraction), lowerRight = secondUp(right, y.fraction);
    const corners = [
      { dx: 0, dy: 0, weight: left - lowerLeft },
      { dx: 1, dy: 0, weight: right - lowerRight },
      { dx: 0, dy: 1, weight: lowerLeft },
      { dx: 1, dy: 1, weight: lowerRight },
    ].filter(({ dx, dy }) => (dx === 0 || x.fraction !== 0) && (dy === 0 || y.fraction !== 0));
    const texels = corners.map((corner) => ({
      ...corner,
      texel: texelOfCube(face, [x.index + corner.dx, y.index + corner.dy], extent),
    }));
    // Three faces meet at a corner of the cube: the weight of the missing texel goes to the others.
    const missing = texels.find(({ texel }) => texel === undefined);
    const share = missing === undefined ? 0 : Math.round(missing.weight / 3);
    this.#footprint.beginPlane();
    for (const { dx, dy, weight, texel } of texels) {
      if (texel === undefined) continue;
      const isOpposite = missing !== undefined && dx !== missing.dx && dy !== missing.dy;
      const more = missing === undefined ? 0 : isOpposite ? missing.weight - 2 * share : share;
      this.#footprint.add(level, slice - face + texel.face, texel.x, texel.y, scale * (weight + more));
    }
  }

  /** Adds the four texels that a gather reads, in the order of its results. */
  #gather({ object, levels: [level] }: BoundTexture, { x: s, y: t, slice }: Place): void {
    const isNormalized = object.hasNormalizedCoordinates === 1 || object.isCubemap === 1;
    const { width, height } = level!;
    const modeX = modeOf(object.addressX, isNormalized), modeY = modeOf(object.addressY, isNormalized);
    const x = this.#x, y = this.#y;
    x.setNeighbours(withinRepeated(texelsOf(s, width, isNormalized), modeX), width, modeX);
    y.setNeighbours(withinRepeated(texelsOf(t, height, isNormalized), modeY), height, modeY);
    this.#footprint.add(level!, slice, x.first, y.second, whole);
    this.#footprint.add(level!, slice, x.second, y.second, whole);
    this.#footprint.add(level!, slice, x.second, y.first, whole);
    this.#footprint.add(level!, slice, x.first, y.first, whole);
  }

  /** Returns what the gradients of a read ask for. Undefined if it has none, or if they make no difference. */
  #coverageOf(
    { object, levels }: BoundTexture,
    { read, geometry }: TextureOperation,
    at: number,
  ): Coverage | undefined {
    const most = object.isFiltered === 1 ? object.maxAnisotropy : 1;
    if (read !== "gradient" || levels.length === 1 && most === 1) return undefined;
    const { width, height, depth } = levels[0]!;
    const extents = [width, height, depth];
    const { isCube, first } = shapeOf(geometry);
    const numbers = (from: number) => Array.from(this.#floats.subarray(from, from + gradientsOf(geometry)));
    const [dx, dy] = [0, 3].map((direction) => numbers(at + exchangeWords.gradients + direction)) as [
      number[],
      number[],
    ];
    const inTexels = (gradient: readonly number[]) => gradient.map((part, index) => part * extents[index]!);
    if (!isCube) return coverageOf(inTexels(dx), inTexels(dy), most);
    const direction = numbers(at + exchangeWords.coordinates + first);
    const onFace = faceGradients(
      direction as unknown as Direction,
      dx as unknown as Direction,
      dy as unknown as Direction,
    );
    if (onFace.crossesCube) return greatestCoverage;
    const halves = (gradient: readonly number[]) => gradient.map((part) => part * width / 2);
    return coverageOf(halves(onFace.dx), halves(onFace.dy), most, !onFace.crossesEdge);
  }

  /** Returns the level of detail in 256ths. */
  #detailOf(
    { object, levels }: BoundTexture,
    { read }: TextureOperation,
    at: number,
    coverage: Coverage | undefined,
  ): number {
    if (levels.length === 1) return 0;
    const lod = read === "level" ? this.#floats[at + exchangeWords.level]! : leastLod;
    const biased = (coverage?.level ?? fixed(lod)) + fixed(object.levelBias);
    const limited = Math.min(Math.max(biased, fixed(object.leastLevel)), fixed(object.greatestLevel));
    return Math.max(0, Math.min(limited, (levels.length - 1) * 256));
  }
}

/** The levels that a read uses: the finer one, and the weight of the next one. */
function levelsFor(
  object: TextureObject,
  detail: number,
): { readonly index: number; readonly fraction: number } {
  if (object.filtersLevels === 0) return { index: detail + 128 >> 8, fraction: 0 };
  const rest = detail & 255;
  const isSharpened = object.maxAnisotropy > 1 && object.optimizesTrilinear === 1;
  return { index: detail >> 8, fraction: isSharpened ? Math.min(Math.max(2 * rest - 128, 0), 256) : rest };
}

/** Returns the address mode that has an effect: only normalized coordinates repeat a texture. */
function modeOf(given: number, isNormalized: boolean): number {
  return isNormalized || given === addressModes.border ? given : addressModes.clamp;
}

/** Sets the texels of a dimension that a read at a coordinate uses. */
function setAxis(
  axis: Axis,
  coordinate: number,
  offset: number,
  extent: number,
  given: number,
  isNormalized: boolean,
  isFiltered: boolean,
  shift = 0,
): void {
  const mode = modeOf(given, isNormalized);
  const texels = withinRepeated(texelsOf(coordinate, extent, isNormalized), mode) + offset;
  if (isFiltered) axis.setLinear(texels, extent, mode, shift);
  else axis.setNearest(texels, extent, mode);
}

/** Returns a level of detail in 256ths, toward 0. NaN counts as 0. */
function fixed(level: number): number {
  return Number.isNaN(level) ? 0 : Math.trunc(Math.max(-(2 ** 20), Math.min(2 ** 20, 256 * level)));
}

/** Returns the number of gradients in each direction. */
export function gradientsOf(geometry: Geometry): number {
  const { isCube, count } = shapeOf(geometry);
  return isCube ? 3 : count;
}

/** The coordinates of a geometry: whether the first one is the layer, and where and how many those of texels are. */
interface Shape {
  readonly isLayered: boolean;
  readonly isCube: boolean;
  readonly first: number;
  readonly count: number;
}

const shapes: Readonly<Record<Geometry, Shape>> = {
  "1d": { isLayered: false, isCube: false, first: 0, count: 1 },
  "2d": { isLayered: false, isCube: false, first: 0, count: 2 },
  "3d": { isLayered: false, isCube: false, first: 0, count: 3 },
  a1d: { isLayered: true, isCube: false, first: 1, count: 1 },
  a2d: { isLayered: true, isCube: false, first: 1, count: 2 },
  cube: { isLayered: false, isCube: true, first: 0, count: 3 },
  acube: { isLayered: true, isCube: true, first: 1, count: 3 },
};

function shapeOf(geometry: Geometry): Shape {
  return shapes[geometry];
}
