import { faultKind } from "../compiler/compile.ts";

/** A kernel met an address that it may not access, a trap, or what else ends it before its end. */
export class KernelFault extends Error {
  /** One of `faultKind`. */
  readonly kind: number;
  /** Undefined where it is not about memory. */
  readonly address: bigint | undefined;
  /** Line of the PTX text. */
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

/** What a kernel reports of itself, as an error. */
export function faultOf(kind: number, address: bigint, line: number): KernelFault {
  switch (kind) {
    case faultKind.trap:
      return new KernelFault(kind, { line, detail: "a trap" });
    case faultKind.stackOverflow:
      return new KernelFault(kind, { line, detail: "the functions that a thread is in need more than its stack" });
    case faultKind.invalidFunction:
      return new KernelFault(kind, { line, detail: `0x${address.toString(16)} is the address of no function` });
    case faultKind.noBarrier:
      return new KernelFault(kind, {
        line,
        detail: `a block has the barriers 0 to 15, and no barrier ${address}`,
      });
    case faultKind.noBarrierCount:
      return new KernelFault(kind, {
        line,
        detail: `${BigInt.asIntN(32, address)} threads are to come to a barrier, which counts them in whole warps`,
      });
    default:
      return new KernelFault(kind, { address, line });
  }
}
