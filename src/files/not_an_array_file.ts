/**
 * Detects files that users often mistake for array files.
 *
 * @module
 */

const conversion = "convert it in Python with " +
  "safetensors.torch.save_file(torch.load(path, weights_only=True), new_path)";

/**
 * Returns what kind of file begins with these 8 bytes, and what to do about it. Undefined if it is not one of the
 * common mistakes.
 *
 * @param expected the kind of file that was expected
 */
export function mistakenFor(prefix: Uint8Array, expected: "npy" | "npz" | "safetensors"): string | undefined {
  const text = Array.from(prefix.subarray(0, 8), (byte) => String.fromCharCode(byte)).join("");
  if (text === "version ") {
    return "it is a pointer of Git LFS, which stands for the file in a clone without LFS; fetch the file itself with " +
      "git lfs pull";
  }
  if (text.startsWith("PK\x03\x04")) {
    return expected === "npy"
      ? "it is a zip archive; readNpz reads those of numpy.savez"
      : `it is a zip archive, as torch.save writes; ${conversion}`;
  }
  if (prefix[0] === 0x80 && prefix[1]! >= 2 && prefix[1]! <= 5) {
    return `it is a pickle, as older versions of torch.save wrote; ${conversion}`;
  }
  if (text.startsWith("\x93NUMPY")) return "it is a .npy file, which readNpy reads";
  if (text.startsWith("GGUF")) return "it is a GGUF file; take the safetensors files of the same model";
  if (text.startsWith("\x89HDF")) return "it is an HDF5 file; convert it in Python, such as with numpy.save";
  if (text.startsWith("\x1f\x8b")) return "it is compressed by gzip; decompress it first";
  if (/^<(?:!doct|html|\?xml)/i.test(text)) {
    return "it is a page of a web site; download the file itself, and not the page that shows it";
  }
  return undefined;
}
