/**
 * The functions of nvJitLink, CUDA's linker as a library, as declared in `nvJitLink.h`. Each returns an
 * `nvJitLinkResult`; each parameter's C type and name stand beside it. A link is a handle.
 *
 * @module
 */

/** The table that `dlopen` takes for libnvJitLink. */
export const libnvJitLink = {
  nvJitLinkVersion: {
    parameters: ["buffer", /* unsigned int *major */ "buffer" /* unsigned int *minor */],
    result: "i32",
  },
  nvJitLinkCreate: {
    parameters: [
      "buffer", // nvJitLinkHandle *handle
      "u32", // uint32_t numOptions
      "buffer", // const char **options
    ],
    result: "i32",
  },
  nvJitLinkDestroy: { parameters: ["buffer" /* nvJitLinkHandle *handle */], result: "i32" },
  nvJitLinkAddData: {
    parameters: [
      "u64", // nvJitLinkHandle handle
      "i32", // nvJitLinkInputType inputType
      "buffer", // const void *data
      "u64", // size_t size
      "buffer", // const char *name
    ],
    result: "i32",
  },
  nvJitLinkComplete: { parameters: ["u64" /* nvJitLinkHandle handle */], result: "i32" },
  nvJitLinkGetLinkedCubinSize: {
    parameters: ["u64", /* nvJitLinkHandle handle */ "buffer" /* size_t *size */],
    result: "i32",
  },
  nvJitLinkGetLinkedCubin: {
    parameters: ["u64", /* nvJitLinkHandle handle */ "buffer" /* void *cubin */],
    result: "i32",
  },
  nvJitLinkGetErrorLogSize: {
    parameters: ["u64", /* nvJitLinkHandle handle */ "buffer" /* size_t *size */],
    result: "i32",
  },
  nvJitLinkGetErrorLog: { parameters: ["u64", /* nvJitLinkHandle handle */ "buffer" /* char *log */], result: "i32" },
  nvJitLinkGetInfoLogSize: {
    parameters: ["u64", /* nvJitLinkHandle handle */ "buffer" /* size_t *size */],
    result: "i32",
  },
  nvJitLinkGetInfoLog: { parameters: ["u64", /* nvJitLinkHandle handle */ "buffer" /* char *log */], result: "i32" },
} as const;
