/**
 * The ways in which pools can be shared with other processes.
 *
 * @module
 */
import { memHandleType } from "../../driver.ts";
import type { Session } from "../../session.ts";
import { TypeError } from "../../support/program_errors.ts";
import { didYouMean, shown, whatIs } from "../../support/validation.ts";

/** How a pool can be shared with other processes: not at all, by a file descriptor, or by a fabric handle. */
export type PoolHandleType = "none" | "posix-fd" | "fabric";

/** A way in which a pool is shared. */
export type ShareableHandleType = Exclude<PoolHandleType, "none">;

const handleTypeBits: Readonly<Record<PoolHandleType, number>> = {
  "none": memHandleType.none,
  "posix-fd": memHandleType.posixFileDescriptor,
  "fabric": memHandleType.fabric,
};
const shareableTypes: readonly ShareableHandleType[] = ["posix-fd", "fabric"];

/** Returns the driver's number of a handle type. */
export function handleTypeBit(handleType: PoolHandleType): number {
  return handleTypeBits[handleType];
}

/** Returns the handle types of a driver's number, in which each type is a bit. */
export function handleTypesOfBits(bits: number): readonly ShareableHandleType[] {
  return shareableTypes.filter((type) => (bits & handleTypeBits[type]) !== 0);
}

/**
 * Returns the driver's number for a handle type. Throws if the type is not valid.
 *
 * @param what the object to be created, in error messages: "a pool"
 */
export function checkHandleType(session: Session, handleType: PoolHandleType, what: string): number {
  if (typeof handleType !== "string" || !Object.hasOwn(handleTypeBits, handleType)) {
    throw new TypeError(
      `Cannot create ${what} with handleType ${shown(handleType)}: it must be "none", "posix-fd" or "fabric"` +
        didYouMean(handleType, Object.keys(handleTypeBits)),
    );
  }
  const refusal = session.driver.sharingRefusal;
  if (handleType !== "none" && refusal !== undefined) {
    throw new TypeError(`Cannot create ${what} that other processes can share: ${refusal}`);
  }
  return handleTypeBits[handleType];
}

/** Returns the handle types of a new pool, for which either option was given, or none. Throws if they are not valid. */
export function checkHandleTypes(
  session: Session,
  { handleType, handleTypes }: {
    readonly handleType?: PoolHandleType | undefined;
    readonly handleTypes?: readonly ShareableHandleType[] | undefined;
  },
): readonly ShareableHandleType[] {
  if (handleTypes === undefined) {
    const { none, ...types } = handleTypeBits;
    const bits = checkHandleType(session, handleType === undefined ? "none" : handleType, "a pool");
    return bits === none ? [] : handleTypesOfBits(bits & (types["posix-fd"] | types.fabric));
  }
  if (handleType !== undefined) {
    throw new TypeError("Cannot create a pool with handleType and handleTypes: give one of them");
  }
  if (!Array.isArray(handleTypes)) {
    const isType = (shareableTypes as readonly unknown[]).includes(handleTypes);
    const list = isType ? `[${shown(handleTypes)}]` : '["posix-fd", "fabric"]';
    throw new TypeError(`Cannot use ${whatIs(handleTypes)} as handleTypes: give an array, such as ${list}`);
  }
  let bits = 0;
  for (const type of handleTypes) {
    if (!shareableTypes.includes(type)) {
      throw new TypeError(
        `Cannot create a pool with ${shown(type)} among its handleTypes: each is "posix-fd" or "fabric"` +
          didYouMean(type, shareableTypes),
      );
    }
    bits |= checkHandleType(session, type, "a pool");
  }
  return handleTypesOfBits(bits);
}
