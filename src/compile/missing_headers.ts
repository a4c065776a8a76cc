/**
 * What to do about headers that a compiler does not find. NVRTC has no standard library.
 *
 * @module
 */

/** `cannot open source file "x.h"`, of NVRTC; clang's `'x.h' file not found`; and that of gcc, which nvcc runs. */
const missingHeader =
  /(?:could not|cannot) open source file "(?<nvrtc>[^"]+)"|'(?<clang>[^']+)' file not found|^(?<gcc>[^:]+): No such file/;
/** Headers whose functions device code has without any header. */
const declaredAlready = /^(?:c?(?:assert|math|stdio|stdlib|string|time)(?:\.h)?|(?:host|device)_[a-z_]+\.h)$/;
/** Headers of C that libcu++ has, by their names in C++ without the `c`. */
const headersOfC = ["float", "limits", "stddef", "stdint"];
/** Other headers of C++ that libcu++ has. */
const headersOfCpp = [
  "algorithm",
  "array",
  "atomic",
  "barrier",
  "bit",
  "chrono",
  "complex",
  "concepts",
  "functional",
  "initializer_list",
  "iterator",
  "latch",
  "numeric",
  "optional",
  "ranges",
  "ratio",
  "semaphore",
  "span",
  "tuple",
  "type_traits",
  "utility",
  "variant",
  "version",
];
/** Headers of C++ that nothing has for device code. */
const hostOnly = [
  "any",
  "deque",
  "exception",
  "filesystem",
  "format",
  "fstream",
  "future",
  "iostream",
  "list",
  "map",
  "mutex",
  "queue",
  "random",
  "regex",
  "set",
  "sstream",
  "stack",
  "stdexcept",
  "string_view",
  "system_error",
  "thread",
  "unordered_map",
  "unordered_set",
  "vector",
];
/** Headers of CUDA, which are in two of its packages for Python. */
const headerOfCuda = /^(?:cuda|cooperative_groups|cccl|nv\/|cub\/|thrust\/|mma\.h|curand|vector_)/;

/** What to do about a header that a message of the compiler says is missing. Undefined for other messages. */
export function adviceOnMissingHeader(message: string): string | undefined {
  const { nvrtc, clang, gcc } = missingHeader.exec(message)?.groups ?? {};
  const header = nvrtc ?? clang ?? gcc;
  if (header === undefined) return undefined;
  if (declaredAlready.test(header)) return "device code has these functions without it: omit the #include";
  const name = /^(?:c?([a-z]+)|([a-z]+)\.h)$/.exec(header);
  const base = name?.[1] ?? name?.[2] ?? "";
  if (headersOfC.includes(base)) return `the compiler has no standard library: include <cuda/std/c${base}>`;
  if (headersOfCpp.includes(header)) {
    return `the compiler has no standard library: include <cuda/std/${header}>, and use cuda::std`;
  }
  if (hostOnly.includes(header)) {
    return "device code has no such library: omit the #include, and use arrays of device memory";
  }
  if (headerOfCuda.test(header)) {
    return "CUDA's headers come with its toolkit, which CUDA_HOME names, or from pip install nvidia-cuda-runtime " +
      "nvidia-cuda-cccl";
  }
  return "give it in headers, or its folder in includePaths";
}
