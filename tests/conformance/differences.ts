import type { Outcome } from "./outcome.ts";

/** A row in which a driver answers otherwise than the recording. */
export interface Difference {
  /** The row's name. */
  readonly situation: string;
  /** The driver's name. */
  readonly driver: string;
  readonly outcome: Outcome;
  readonly because: string;
}

/** Every row in which a driver answers otherwise, and why it must. */
export const differences: readonly Difference[] = [
  {
    situation: "after a kernel failed: calls about memory",
    driver: "cuda without libcudart",
    outcome: {
      answer: {
        memGetAddressRange: "cudaErrorIllegalAddress",
        ipcGetMemHandle: "cudaErrorIllegalAddress",
        memcpyHtoDAsync: "cudaErrorIllegalAddress",
        memcpyDtoHAsync: "cudaErrorIllegalAddress",
        memcpyPeerAsync: "cudaErrorIllegalAddress",
        memsetAsync: "cudaErrorIllegalAddress",
        malloc: "cudaErrorIllegalAddress",
        hostAlloc: "cudaErrorIllegalAddress",
        free: "cudaErrorIllegalAddress",
        "free of nothing": "done",
        freeHost: "cudaErrorIllegalAddress",
      },
    },
    because: "libcuda has no free of nothing: what stands in for it asks no driver",
  },
];
