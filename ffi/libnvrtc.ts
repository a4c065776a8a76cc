/**
 * The functions of NVRTC, CUDA's compiler for C++ as a library, as declared in `nvrtc.h`. Those that can fail return an
 * `nvrtcResult`; each parameter's C type and name stand beside it. A program is a handle.
 *
 * @module
 */

/** The table that `dlopen` takes for libnvrtc. */
export const libnvrtc = {
  nvrtcVersion: { parameters: ["buffer", /* int *major */ "buffer" /* int *minor */], result: "i32" },
  nvrtcGetErrorString: { parameters: ["i32" /* nvrtcResult result */], result: "u64" },
  nvrtcGetNumSupportedArchs: { parameters: ["buffer" /* int *numArchs */], result: "i32" },
  nvrtcGetSupportedArchs: { parameters: ["buffer" /* int *supportedArchs */], result: "i32" },
  nvrtcCreateProgram: {
    parameters: [
      "buffer", // nvrtcProgram *prog
      "buffer", // const char *src
      "buffer", // const char *name
      "i32", // int numHeaders
      "buffer", // const char * const *headers
      "buffer", // const char * const *includeNames
    ],
    result: "i32",
  },
  nvrtcDestroyProgram: { parameters: ["buffer" /* nvrtcProgram *prog */], result: "i32" },
  nvrtcAddNameExpression: {
    parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* const char * const name_expression */],
    result: "i32",
  },
  nvrtcCompileProgram: {
    parameters: [
      "u64", // nvrtcProgram prog
      "i32", // int numOptions
      "buffer", // const char * const *options
    ],
    result: "i32",
  },
  nvrtcGetLoweredName: {
    parameters: [
      "u64", // nvrtcProgram prog
      "buffer", // const char *const name_expression
      "buffer", // const char **lowered_name
    ],
    result: "i32",
  },
  nvrtcGetPTXSize: { parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* size_t *ptxSizeRet */], result: "i32" },
  nvrtcGetPTX: { parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* char *ptx */], result: "i32" },
  nvrtcGetCUBINSize: {
    parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* size_t *cubinSizeRet */],
    result: "i32",
  },
  nvrtcGetCUBIN: { parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* char *cubin */], result: "i32" },
  nvrtcGetProgramLogSize: {
    parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* size_t *logSizeRet */],
    result: "i32",
  },
  nvrtcGetProgramLog: { parameters: ["u64", /* nvrtcProgram prog */ "buffer" /* char *log */], result: "i32" },
} as const;
