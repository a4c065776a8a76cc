import type { Outcome } from "./outcome.ts";

/** A row for which a driver gives another answer than the recorded one. */
export interface Difference {
  /** The row's name. */
  readonly situation: string;
  /** The driver's name. */
  readonly driver: string;
  readonly outcome: Outcome;
  readonly because: string;
}

/** Every row for which a driver must give another answer, and why. */
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
    because: "the driver API has no equivalent of cudaFree(0): nothing is called, and so nothing fails",
  },
  {
    situation: "a copy added in freed memory",
    driver: "software",
    outcome: { answer: "cudaErrorInvalidValue" },
    because: "CUDA takes an unknown address for one of the host, and crashes when the graph is instantiated",
  },
];
