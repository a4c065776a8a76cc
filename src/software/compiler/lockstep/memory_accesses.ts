/**
 * The accesses that an instruction makes to memory that other threads may access too.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import { type ResolvedAddress, spaceOf } from "../../../ptx/instructions/resolved_instruction.ts";
import { mayHave } from "../../../ptx/instructions/instruction_traits.ts";

/** An access to memory of an instruction. */
export interface MemoryAccess {
  readonly instruction: CompiledInstruction;
  readonly address: ResolvedAddress;
  readonly space: "shared" | "global" | "generic";
  readonly bytes: number;
  readonly writes: boolean;
  /** Whether it only writes, and other threads need not see it at once. */
  readonly isPlainStore: boolean;
  /**
   * For an atomic operation whose result is not used: what it does. The order of equal operations does not matter.
   */
  readonly reduction: string | undefined;
}

/** The operations whose order does not matter. */
const commutative: ReadonlySet<string | undefined> = new Set(["add", "min", "max", "and", "or", "xor"]);

/** The accesses of an instruction to shared and global memory, except to what no thread writes. */
export function accessesOf(
  instruction: CompiledInstruction,
  { isUsed }: { isUsed: (instruction: CompiledInstruction) => boolean },
): MemoryAccess[] {
  const { form, operands, choices, type } = instruction;
  if (form.flow !== undefined || form.traits.readsConstants === true) return [];
  const reads = mayHave(instruction, "reads");
  const writes = mayHave(instruction, "writes");
  if (!reads && !writes) return [];
  const addresses = operands.filter((operand) => operand.kind === "address");
  const length = Number(choices.get("vector")?.slice(1) ?? 1);
  const operation = choices.get("operation");
  const reduction = reads && writes && commutative.has(operation) && !isUsed(instruction)
    ? `${operation} ${type.name}`
    : undefined;
  return addresses.flatMap((address, index): MemoryAccess[] => {
    // An asynchronous copy has two addresses: it writes shared memory and reads global memory.
    const space = addresses.length === 1 ? spaceOf(instruction) : index === 0 ? "shared" : "global";
    if (space !== "shared" && space !== "global" && space !== "generic") return [];
    if (address.base?.kind === "variable" && (address.base.isInFrame === true || address.base.space === "param")) {
      return [];
    }
    return [{
      instruction,
      address,
      space,
      bytes: addresses.length === 1 ? type.bits / 8 * length : 16,
      writes: writes && index === 0,
      isPlainStore: form.traits.isPlainStore === true,
      reduction,
    }];
  });
}
