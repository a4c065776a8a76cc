import { faultKind } from "../compiler/compile.ts";

/** A kernel was stopped by an illegal address, a trap, or another fault. */
export class KernelFault extends Error {
  /** One of `faultKind`. */
  readonly kind: number;
  /** Undefined if the fault does not concern memory. */
  readonly address: bigint | undefined;
  /** The line in the PTX text. */
  readonly line: number;

  constructor(
    kind: number,
    { address, line, detail }: { address?: bigint | undefined; line: number; detail?: string },
  ) {
    const what = detail ?? (address === undefined ? undefined : `address 0x${address.toString(16)}`);
    super(line === 0 ? what : what === undefined ? `Line ${line} of the PTX` : `Line ${line} of the PTX, ${what}`);
    this.kind = kind;
    this.address = address;
    this.line = line;
  }
}

/** The error for a fault that a kernel reports. */
export function faultOf(kind: number, address: bigint, line: number): KernelFault {
  switch (kind) {
    case faultKind.trap:
      return new KernelFault(kind, { line, detail: "a trap" });
    case faultKind.stackOverflow:
      return new KernelFault(kind, { line, detail: "the functions that a thread is in need more stack than it has" });
    case faultKind.invalidFunction:
      return new KernelFault(kind, { line, detail: `no function has the address 0x${address.toString(16)}` });
    case faultKind.noBarrier:
      return new KernelFault(kind, {
        line,
        detail: `a block has the barriers 0 to 15, but no barrier ${address}`,
      });
    case faultKind.noBarrierCount:
      return new KernelFault(kind, {
        line,
        detail: `${BigInt.asIntN(32, address)} threads are to arrive at a barrier, which counts whole warps`,
      });
    default:
      return new KernelFault(kind, { address, line });
  }
}
