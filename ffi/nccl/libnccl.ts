/**
 * The functions of NCCL as declared in `nccl.h`. Those that can fail return an `ncclResult_t`; each parameter's C type
 * and name stand beside it. Communicators and streams are handles.
 *
 * @module
 */

import type { NativeSymbol } from "../native/host.ts";

/** The signatures of libnccl's functions, as passed to `dlopen`. */
export const libnccl = {
  ncclGetVersion: { parameters: ["buffer" /* int *version */], result: "i32" },
  ncclGetErrorString: { parameters: ["i32" /* ncclResult_t result */], result: "u64" },
  ncclGetLastError: { parameters: ["u64" /* ncclComm_t comm */], result: "u64" },
  ncclGetUniqueId: { parameters: ["buffer" /* ncclUniqueId *uniqueId */], result: "i32" },
  ncclCommInitRankScalable: {
    parameters: [
      "buffer", // ncclComm_t *newcomm
      "i32", // int nranks
      "i32", // int myrank
      "i32", // int nId
      "buffer", // ncclUniqueId *commIds
      "buffer", // ncclConfig_t *config
    ],
    result: "i32",
  },
  ncclCommSplit: {
    parameters: [
      "u64", // ncclComm_t comm
      "i32", // int color
      "i32", // int key
      "buffer", // ncclComm_t *newcomm
      "buffer", // ncclConfig_t *config
    ],
    result: "i32",
  },
  ncclCommShrink: {
    parameters: [
      "u64", // ncclComm_t comm
      "buffer", // int *excludeRanksList
      "i32", // int excludeRanksCount
      "buffer", // ncclComm_t *newcomm
      "buffer", // ncclConfig_t *config
      "i32", // int shrinkFlags
    ],
    result: "i32",
  },
  ncclCommUserRank: { parameters: ["u64", /* ncclComm_t comm */ "buffer" /* int *rank */], result: "i32" },
  ncclCommCount: { parameters: ["u64", /* ncclComm_t comm */ "buffer" /* int *count */], result: "i32" },
  ncclCommGetAsyncError: {
    parameters: ["u64", /* ncclComm_t comm */ "buffer" /* ncclResult_t *asyncError */],
    result: "i32",
  },
  ncclCommDestroy: { parameters: ["u64" /* ncclComm_t comm */], result: "i32", nonblocking: true },
  ncclCommAbort: { parameters: ["u64" /* ncclComm_t comm */], result: "i32", nonblocking: true },
  ncclGroupStart: { parameters: [], result: "i32" },
  ncclGroupEnd: { parameters: [], result: "i32" },
  ncclAllReduce: {
    parameters: [
      "u64", // const void *sendbuff
      "u64", // void *recvbuff
      "u64", // size_t count
      "i32", // ncclDataType_t datatype
      "i32", // ncclRedOp_t op
      "u64", // ncclComm_t comm
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
  ncclReduce: {
    parameters: [
      "u64", // const void *sendbuff
      "u64", // void *recvbuff
      "u64", // size_t count
      "i32", // ncclDataType_t datatype
      "i32", // ncclRedOp_t op
      "i32", // int root
      "u64", // ncclComm_t comm
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
  ncclBroadcast: {
    parameters: [
      "u64", // const void *sendbuff
      "u64", // void *recvbuff
      "u64", // size_t count
      "i32", // ncclDataType_t datatype
      "i32", // int root
      "u64", // ncclComm_t comm
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
  ncclAllGather: {
    parameters: [
      "u64", // const void *sendbuff
      "u64", // void *recvbuff
      "u64", // size_t sendcount
      "i32", // ncclDataType_t datatype
      "u64", // ncclComm_t comm
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
  ncclReduceScatter: {
    parameters: [
      "u64", // const void *sendbuff
      "u64", // void *recvbuff
      "u64", // size_t recvcount
      "i32", // ncclDataType_t datatype
      "i32", // ncclRedOp_t op
      "u64", // ncclComm_t comm
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
  ncclAlltoAll: {
    parameters: [
      "u64", // const void *sendbuff
      "u64", // void *recvbuff
      "u64", // size_t count
      "i32", // ncclDataType_t datatype
      "u64", // ncclComm_t comm
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
  ncclSend: {
    parameters: [
      "u64", // const void *sendbuff
      "u64", // size_t count
      "i32", // ncclDataType_t datatype
      "i32", // int peer
      "u64", // ncclComm_t comm
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
  ncclRecv: {
    parameters: [
      "u64", // void *recvbuff
      "u64", // size_t count
      "i32", // ncclDataType_t datatype
      "i32", // int peer
      "u64", // ncclComm_t comm
      "u64", // cudaStream_t stream
    ],
    result: "i32",
  },
} as const;

/**
 * The signature of `ncclCommInitRankConfig` for each processor architecture. The function has an `ncclUniqueId`
 * parameter that is passed by value. On x86-64, such a struct is passed on the stack, and the other arguments are
 * passed as if the struct were absent: in registers while there are any left, then on the stack. On AArch64, the
 * address of a copy of the struct is passed.
 */
export const initRankByValue: Readonly<Record<string, NativeSymbol>> = {
  x86_64: {
    parameters: [
      "buffer", // ncclComm_t *comm
      "i32", // int nranks
      "i32", // int rank
      "buffer", // ncclConfig_t *config
      "u64", // the rest of the registers
      "u64",
      ...Array<"u64">(16).fill("u64"), // ncclUniqueId commId
    ],
    result: "i32",
  },
  aarch64: {
    parameters: [
      "buffer", // ncclComm_t *comm
      "i32", // int nranks
      "buffer", // ncclUniqueId commId
      "i32", // int rank
      "buffer", // ncclConfig_t *config
    ],
    result: "i32",
  },
};
