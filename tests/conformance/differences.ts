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
  ...["software", "cuda", "cuda without libcudart"].map((driver) => ({
    situation: "launches with more blocks, threads and shared memory than there can be, through the objects",
    driver,
    outcome: {
      answer: {
        "65536 blocks in y": "cudaErrorInvalidValue",
        "1025 threads": "cudaErrorInvalidValue",
        "33 x 32 threads": "cudaErrorInvalidValue",
        "65 threads in z": "cudaErrorInvalidValue",
        "1 MiB": "RangeError",
        "less than no shared memory": "RangeError",
        "half a byte of shared memory": "RangeError",
        "1024 threads": "done",
      },
    },
    because: "since the row was recorded, the objects refuse too much shared memory before the driver is called",
  })),
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
];
