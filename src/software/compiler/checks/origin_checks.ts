/**
 * Checks that accesses stay in their origin: the variable from which their address was computed, or the allocation that
 * a kernel parameter points into. An access outside of its origin is reported, and still executed: its address is in
 * other valid memory, or the bounds check would have refused it.
 *
 * @module
 */
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import { argumentRangesByteLength } from "../../abi/launch_record.ts";
import type { FaultPlace } from "../../abi/addresses.ts";
import type { ResolvedAddress } from "../../../ptx/instructions/resolved_instruction.ts";
import { originSpaces } from "../../abi/host_functions.ts";

/** An access whose offset in linear memory is in the local `location`. */
interface LocatedAccess {
  readonly location: number;
  readonly bytes: number;
  readonly operation: FaultPlace["operation"];
}

/**
 * Emits code that pushes whether an access is outside of its origin, which is the variable or allocation that its
 * pointer was derived from. If the origin is unknown or cannot be checked, emits no code and returns false.
 */
export function pushIsStray(
  e: FunctionEmitter,
  { base }: ResolvedAddress,
  { location, bytes }: Pick<LocatedAccess, "location" | "bytes">,
): boolean {
  const origin = e.originOf(base);
  if (origin === undefined) return false;
  const { code } = e;
  if (origin.kind === "parameter") {
    if (origin.offset % 8 !== 0 || origin.offset + 8 > argumentRangesByteLength) return false;
    const { begin, room } = e.argumentRange(origin.offset, bytes);
    code.get(location).get(begin).ops("i32Sub").get(room).ops("i32GeU");
    return true;
  }
  code.get(location);
  e.pushOffsetOf(origin, 0n);
  code.ops("i32Sub").i32(Math.max(0, origin.byteLength - bytes + 1)).ops("i32GeU");
  return true;
}

/** Emits code that reports an access if it is outside of its origin. */
export function checkOrigin(e: FunctionEmitter, address: ResolvedAddress, access: LocatedAccess): void {
  if (!pushIsStray(e, address, access)) return;
  const { code } = e;
  const { location, bytes, operation } = access;
  const origin = e.originOf(address.base)!;
  code.ifUnlikely().get(location);
  e.pushPlace({ operation, bytes });
  if (origin.kind === "parameter") {
    const { begin, length } = e.argumentRange(origin.offset, bytes);
    code.i32(0).i32(origin.offset).get(begin).get(length);
  } else {
    code.i32(originSpaces.findIndex((space) => space === origin.space)).i32(origin.offset);
    e.pushOffsetOf(origin, 0n);
    code.i32(origin.byteLength);
  }
  e.callHelper("stray").end();
}

/**
 * Emits code that checks an access with a helper. The offset of the access is on the stack before and after. Emits code
 * only if the access's pointer was derived from a parameter, and returns whether this is so.
 */
export function checkOriginInHelper(
  e: FunctionEmitter,
  { base }: ResolvedAddress,
  { bytes, operation }: Omit<LocatedAccess, "location">,
): boolean {
  const origin = e.originOf(base);
  if (origin?.kind !== "parameter") return false;
  if (origin.offset % 8 !== 0 || origin.offset + 8 > argumentRangesByteLength) return false;
  const { begin, length } = e.argumentRange(origin.offset, bytes);
  e.code.get(begin).get(length);
  e.pushPlace({ operation, bytes });
  e.code.i32(origin.offset);
  e.callHelper("checkParameterOrigin");
  return true;
}
