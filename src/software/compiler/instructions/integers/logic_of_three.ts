/**
 * The shortest expressions for all functions of three bits, which `lop3` gives by their truth tables.
 *
 * @module
 */

/** An expression in three inputs. */
export type LogicTerm =
  | { readonly kind: "input"; readonly index: 0 | 1 | 2 }
  /** 0, or -1 for all ones. */
  | { readonly kind: "constant"; readonly value: 0 | -1 }
  | {
    readonly kind: "operation";
    readonly operation: "i32And" | "i32Or" | "i32Xor";
    readonly left: LogicTerm;
    readonly right: LogicTerm;
  };

const operations = [
  ["i32And", (a: number, b: number) => a & b],
  ["i32Or", (a: number, b: number) => a | b],
  ["i32Xor", (a: number, b: number) => a ^ b],
] as const;
let terms: ReadonlyMap<number, LogicTerm> | undefined;

/**
 * The expression with the fewest operations for a truth table. Bit 4a + 2b + c of the table is the result for a, b and
 * c.
 */
export function shortestLogic(truthTable: number): LogicTerm {
  return (terms ??= findTerms()).get(truthTable)!;
}

/**
 * Finds functions by increasing number of operations: each combines two functions that have one operation less
 * together.
 */
function findTerms(): ReadonlyMap<number, LogicTerm> {
  const found = new Map<number, LogicTerm>([
    [0xf0, { kind: "input", index: 0 }],
    [0xcc, { kind: "input", index: 1 }],
    [0xaa, { kind: "input", index: 2 }],
    [0x00, { kind: "constant", value: 0 }],
    [0xff, { kind: "constant", value: -1 }],
  ]);
  const byLength = [[...found.keys()]];
  while (found.size < 256) {
    const longer: number[] = [];
    for (let leftLength = 0; leftLength < byLength.length; leftLength++) {
      for (const left of byLength[leftLength]!) {
        for (const right of byLength[byLength.length - 1 - leftLength]!) {
          for (const [operation, apply] of operations) {
            const table = apply(left, right);
            if (found.has(table)) continue;
            found.set(table, { kind: "operation", operation, left: found.get(left)!, right: found.get(right)! });
            longer.push(table);
          }
        }
      }
    }
    byLength.push(longer);
  }
  return found;
}
