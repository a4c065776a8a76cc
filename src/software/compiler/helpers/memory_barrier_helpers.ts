/**
 * Functions for `mbarrier`.
 *
 * @module
 */
import { memoryBarrierFields } from "../../abi/launch_record.ts";
import type { HelperBuilder, HelperFunction } from "./helper_function.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";

/** The names of these functions. */
export type MemoryBarrierHelper = "arriveInMemory";

/** These functions, by name. */
export const memoryBarrierHelpers: Readonly<Record<MemoryBarrierHelper, HelperBuilder>> = { arriveInMemory };

/**
 * Counts arrivals at an `mbarrier` object, and completes its phase if nothing is pending.
 *
 * Takes the offset of the object, and by how much the pending arrivals and the arrivals expected by later phases
 * decrease, and the bytes to be copied increase. Returns the object as it was.
 */
function arriveInMemory(): HelperFunction {
  const [location, arrivals, dropped, added] = [0, 1, 2, 3] as const;
  const [before, pending, expected, transactions, phase] = [4, 5, 6, 7, 8] as const;
  const code = new CodeWriter();
  const pushField = (name: "pending" | "expected") => {
    const { first, bits } = memoryBarrierFields[name];
    return code.get(before).i64(first).ops("i64ShrU").i64((1n << bits) - 1n).ops("i64And");
  };
  const count = memoryBarrierFields.transactions;
  code.get(location).memory("i64Load").set(before);
  pushField("pending").get(arrivals).ops("i64Sub").set(pending);
  pushField("expected").get(dropped).ops("i64Sub").set(expected);
  code.get(before).i64(64n - count.first - count.bits).ops("i64Shl").i64(64n - count.bits).ops("i64ShrS");
  code.get(added).ops("i64Add").set(transactions);
  code.get(before).i64(memoryBarrierFields.phase.first).ops("i64ShrU").set(phase);
  code.get(pending).get(transactions).ops("i64Or", "i64Eqz").if();
  code.get(expected).set(pending).get(phase).i64(1n).ops("i64Xor").set(phase).end();
  code.get(location);
  ([["pending", pending], ["expected", expected], ["transactions", transactions], ["phase", phase]] as const).forEach(
    ([name, local], index) => {
      const { first, bits } = memoryBarrierFields[name];
      code.get(local).i64((1n << bits) - 1n).ops("i64And").i64(first).ops("i64Shl");
      if (index > 0) code.ops("i64Or");
    },
  );
  code.memory("i64Store").get(before);
  return {
    type: { parameters: ["i32", "i64", "i64", "i64"], results: ["i64"] },
    locals: ["i64", "i64", "i64", "i64", "i64"],
    code: code.finish(),
  };
}
