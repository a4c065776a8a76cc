/**
 * Tensor maps of the software device, with CUDA's checks of what they describe.
 *
 * @module
 */
import type { Im2colTensor, TiledTensor } from "../../driver.ts";
import { cudaErrorNumbers } from "../../support/errors.ts";
import {
  encodeTensorMap,
  mostDimensions,
  type PixelBox,
  sliceWidths,
  swizzleWidths,
  tensorTypes,
} from "../abi/tensor_map.ts";
import { fail } from "../failure.ts";

/** Implements `cuTensorMapEncodeTiled`. */
export function encodeTiled(tensor: TiledTensor, call: string): Uint8Array<ArrayBuffer> {
  const { globalDim, boxDim } = tensor;
  const isValid = boxDim.length === globalDim.length && boxDim.every((size) => size >= 1 && size <= 256);
  if (!isValid) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  return encode(tensor, boxDim, { pixels: undefined, call });
}

/** Implements `cuTensorMapEncodeIm2col`. */
export function encodeIm2col(tensor: Im2colTensor, call: string): Uint8Array<ArrayBuffer> {
  const { globalDim, channelsPerPixel, pixelsPerColumn, pixelBoxLowerCorner, pixelBoxUpperCorner } = tensor;
  const corners = [pixelBoxLowerCorner, pixelBoxUpperCorner];
  const limit = [0, 0, 0, 2 ** 15, 2 ** 7, 2 ** 4][globalDim.length] ?? 0;
  const isValid = globalDim.length >= 3 && channelsPerPixel >= 1 && channelsPerPixel <= 256 && pixelsPerColumn >= 1 &&
    pixelsPerColumn <= 1024 &&
    corners.every((corner) =>
      corner.length === globalDim.length - 2 && corner.every((offset) => offset >= -limit && offset < limit)
    );
  if (!isValid) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  const box = globalDim.map((_, index) => index === 0 ? channelsPerPixel : 1);
  const pixels = { lower: pixelBoxLowerCorner, upper: pixelBoxUpperCorner, count: pixelsPerColumn };
  return encode(tensor, box, { pixels, call });
}

function encode(
  { address, globalDim, globalStrides, elementStrides, dataType, swizzle, interleave, oobFill }: Omit<
    TiledTensor,
    "boxDim"
  >,
  box: readonly number[],
  { pixels, call }: { pixels: PixelBox | undefined; call: string },
): Uint8Array<ArrayBuffer> {
  const type = tensorTypes[dataType];
  const width = swizzleWidths[swizzle];
  const rank = globalDim.length;
  const rowBytes = box[0]! * (type?.bytes ?? 0);
  const alignment = interleave === 2 ? 32 : 16;
  const isValid = type !== undefined && width !== undefined && rank >= 1 && rank <= mostDimensions &&
    interleave < sliceWidths.length && address % BigInt(alignment) === 0n && globalStrides.length === rank - 1 &&
    elementStrides.length === rank &&
    globalDim.every((size) => size >= 1 && size <= 2 ** 32) &&
    globalStrides.every((stride) => stride % alignment === 0 && stride >= 0 && stride < 2 ** 40) &&
    elementStrides.every((stride) => stride >= 1 && stride <= 8) &&
    rowBytes % 16 === 0 && (interleave === 0 ? width === 0 || rowBytes <= width : rank >= 3) &&
    (oobFill === 0 || oobFill === 1 && type.name.includes("f"));
  if (!isValid) fail(cudaErrorNumbers.cudaErrorInvalidValue, call);
  return encodeTensorMap({
    type: dataType,
    rank,
    interleave,
    swizzle,
    fillsNaN: oobFill === 1,
    address,
    dimensions: globalDim,
    strides: globalStrides,
    box,
    elementStrides,
    pixels,
  });
}
