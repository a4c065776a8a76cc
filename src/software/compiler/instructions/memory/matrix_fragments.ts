/**
 * `wmma.load` and `wmma.store`: the threads of a warp load and store fragments of a matrix. PTX ISA, sections 9.7.14.4.3
 * and 9.7.14.4.4.
 *
 * The layout of these fragments is not specified. Here it is that of `mma`, extended to all shapes. The instructions
 * stand for others: each thread accesses its own elements, and the threads wait for each other, after loads or before
 * stores.
 *
 * @module
 */
import type { CompiledInstruction, ExpandedInstruction, InstructionForm } from "../instruction_form.ts";
import type { InsertedInstructions } from "../../../../ptx/analysis/inserted_instructions.ts";
import { PtxError } from "../../../../ptx/syntax.ts";
import type { Register, ResolvedAddress, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";

type Inserted = InsertedInstructions<InstructionForm>;

const u32 = typeNamed("u32");
const b32 = typeNamed("b32");

const allLanes = 0xffff_ffff;

/** The operands of the barriers that the instructions stand for, which may be left out beside others. */
export const fragmentBarriers: Readonly<Record<"afterLoads" | "beforeStores", ResolvedOperand>> = {
  afterLoads: integer(allLanes),
  beforeStores: integer(allLanes),
};

/** The lowering of `wmma.load`. */
export const loadFragment: ExpandedInstruction = {
  expand(i, inserted) {
    const [destination, address, stride] = i.operands;
    const fragment = fragmentOf(i, destination);
    const places = new ElementPlaces(inserted, { i, fragment, address, stride });
    fragment.registers.forEach((register, index) => {
      if (index >= fragment.needed) {
        inserted.addTo("mov.b32", [register, fragment.registers[index % fragment.needed]!]);
        return;
      }
      const elements = places.ofRegister(index);
      if (elements.length === 1) {
        inserted.addTo(`ld${places.space}.b${elements[0]!.bits}`, [register, elements[0]!.address]);
        return;
      }
      const parts = elements.map(({ bits, address }) => inserted.add(`ld${places.space}.u${bits}`, b32, [address]));
      let word = parts[0]!;
      parts.forEach((part, element) => {
        if (element === 0) return;
        const shift = integer(2 ** (fragment.bits * element));
        if (element < parts.length - 1) word = inserted.add("mad.lo.u32", b32, [part, shift, word]);
        else inserted.addTo("mad.lo.u32", [register, part, shift, word]);
      });
    });
    inserted.addTo("bar.warp.sync", [fragmentBarriers.afterLoads]);
  },
};

/** The lowering of `wmma.store`. */
export const storeFragment: ExpandedInstruction = {
  expand(i, inserted) {
    const [address, source, stride] = i.operands;
    const fragment = fragmentOf(i, source);
    inserted.addTo("bar.warp.sync", [fragmentBarriers.beforeStores]);
    const places = new ElementPlaces(inserted, { i, fragment, address, stride });
    fragment.registers.forEach((register, index) => {
      places.ofRegister(index).forEach(({ bits, address }, element) => {
        const value = element === 0
          ? register
          : inserted.add("shr.u32", b32, [register, integer(fragment.bits * element)]);
        inserted.addTo(`st${places.space}.b${bits}`, [address, value]);
      });
    });
  },
};

/** A fragment of a matrix, and the matrix. */
interface Fragment {
  readonly registers: readonly ResolvedOperand[];
  /** The number of registers that the elements of the matrix need. Others have copies. */
  readonly needed: number;
  readonly matrix: "a" | "b" | "c" | "d";
  /** The number of rows, and of columns. */
  readonly rows: number;
  readonly columns: number;
  /** The size of an element in bits. */
  readonly bits: number;
}

/** Returns the fragment of an instruction. Throws `PtxError` if its operand has the wrong number of registers. */
function fragmentOf({ choices, line, text }: CompiledInstruction, operand: ResolvedOperand | undefined): Fragment {
  const [, m, n, k] = /^m(\d+)n(\d+)k(\d+)$/.exec(choices.get("shape")!)!.map(Number) as [0, number, number, number];
  const matrix = choices.get("matrix") as Fragment["matrix"];
  const element = choices.get("element")!;
  const bits = element === "tf32" ? 32 : Number(/\d+$/.exec(element)![0]);
  const [rows, columns] = matrix === "a" ? [m, k] : matrix === "b" ? [k, n] : [m, n];
  const needed = rows * columns * bits / 1024 / (bits === 64 ? 2 : 1);
  const count = element === "f16" && (matrix === "a" || matrix === "b") ? 8 : needed;
  const registers = operand?.kind === "vector" ? operand.elements : operand === undefined ? [] : [operand];
  if (registers.length !== count) {
    const noun = count === 1 ? "register" : "registers";
    throw new PtxError(line, `cannot compile "${text}": it needs a vector of ${count} ${noun}`);
  }
  return { registers, needed, matrix, rows, columns, bits };
}

/** An element, or several adjacent ones, in memory. */
interface PlacedElement {
  readonly address: ResolvedAddress;
  /** The size of the access in bits. */
  readonly bits: number;
}

/** Adds the instructions that compute where a thread's elements are in memory. */
class ElementPlaces {
  /** The state space of the accesses, with a period. */
  readonly space: string;
  readonly #inserted: Inserted;
  readonly #fragment: Fragment;
  readonly #isRowMajor: boolean;
  /** The address of the thread's first element. */
  readonly #begin: Register;
  /** The distance between rows, or between columns if these are contiguous, in bytes. */
  readonly #pitch: ResolvedOperand;
  readonly #lines = new Map<number, Register>();

  constructor(inserted: Inserted, { i, fragment, address, stride }: {
    readonly i: CompiledInstruction;
    readonly fragment: Fragment;
    readonly address: ResolvedOperand | undefined;
    readonly stride: ResolvedOperand | undefined;
  }) {
    const { line, text, choices } = i;
    if (address?.kind !== "address" || address.base === undefined) {
      throw new PtxError(line, `cannot compile "${text}": its address must be in brackets`);
    }
    const { bits, rows, columns, matrix } = fragment;
    this.space = choices.has("space") ? `.${choices.get("space")}` : "";
    this.#inserted = inserted;
    this.#fragment = fragment;
    this.#isRowMajor = choices.get("layout") === "row" || choices.has("row");
    const { base } = address;
    const pointer = base.kind === "register" ? base : inserted.add("mov.u64", typeNamed("u64"), [base]);
    const type = pointer.type.bits === 32 ? u32 : typeNamed("u64");
    const lane = inserted.add("mov.u32", u32, [{ kind: "special", name: "%laneid" }]);
    const group = inserted.add("shr.u32", u32, [lane, integer(2)]);
    const member = inserted.add("and.b32", u32, [lane, integer(3)]);
    const length = this.#isRowMajor ? columns : rows;
    this.#pitch = stride === undefined
      ? integer(length * bits / 8)
      : bits >= 8
      ? inserted.add("mul.lo.u32", u32, [stride, integer(bits / 8)])
      : inserted.add("shr.u32", u32, [stride, integer(Math.log2(8 / bits))]);
    // The bytes between the elements of adjacent groups, and of adjacent members of a group.
    const alongBits = bits * (matrix === "c" || matrix === "d" ? 2 : Math.max(1, 32 / bits));
    const groupIsLine = this.#isRowMajor === (matrix !== "b");
    const [lineIndex, lineFactor] = groupIsLine ? [group, 1] : [member, alongBits / bits];
    const [withinIndex, withinBits] = groupIsLine ? [member, alongBits] : [group, bits];
    const multiply = type.bits === 32 ? "mad.lo.u32" : "mad.wide.u32";
    const place = inserted.add("mul.lo.u32", u32, [lineIndex, integer(lineFactor)]);
    const begin = inserted.add(multiply, type, [place, this.#pitch, pointer]);
    const withOffset = inserted.add(multiply, type, [withinIndex, integer(withinBits / 8), begin]);
    this.#begin = inserted.add(`add.u${type.bits}`, type, [withOffset, { kind: "integer", value: address.offset }]);
  }

  /** The elements of a register, from its low bits to its high ones. Adjacent elements are one access if possible. */
  ofRegister(register: number): readonly PlacedElement[] {
    const { matrix, rows, columns, bits } = this.#fragment;
    const isAccumulator = matrix === "c" || matrix === "d";
    const perRegister = Math.max(1, 32 / bits);
    let row: number, column: number;
    if (isAccumulator) {
      const pair = Math.floor(register * perRegister / 2);
      row = 8 * (pair % (rows / 8));
      column = 8 * Math.floor(pair / (rows / 8)) + register * perRegister % 2;
    } else {
      const blocks = (matrix === "a" ? rows : columns) / 8;
      const along = 4 * perRegister * Math.floor(register / blocks), across = 8 * (register % blocks);
      [row, column] = matrix === "a" ? [across, along] : [along, across];
    }
    // Along a row of A, C or D, or a column of B.
    const runsAlongRow = matrix !== "b";
    if (perRegister === 1 || runsAlongRow === this.#isRowMajor) {
      return [{ address: this.#address(row, column), bits: Math.max(32, bits) }];
    }
    return Array.from({ length: perRegister }, (_, element) => ({
      address: runsAlongRow ? this.#address(row, column + element) : this.#address(row + element, column),
      bits,
    }));
  }

  #address(row: number, column: number): ResolvedAddress {
    const [line, within] = this.#isRowMajor ? [row, column] : [column, row];
    return { kind: "address", base: this.#lineAt(line), offset: BigInt(within * this.#fragment.bits / 8) };
  }

  /** The address in the row or column that is `line` after that of the thread's first element. */
  #lineAt(line: number): Register {
    if (line === 0) return this.#begin;
    let register = this.#lines.get(line);
    if (register === undefined) {
      const { type } = this.#begin;
      const multiply = type.bits === 32 ? "mad.lo.u32" : "mad.wide.u32";
      register = this.#inserted.add(multiply, type, [this.#pitch, integer(line), this.#begin]);
      this.#lines.set(line, register);
    }
    return register;
  }
}

function integer(value: number): ResolvedOperand {
  return { kind: "integer", value: BigInt(value) };
}
