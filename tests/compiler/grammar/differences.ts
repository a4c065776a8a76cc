/**
 * The modules of `grammar.ts` for which the software device and ptxas differ, and why.
 *
 * @module
 */

/** PTX that ptxas takes, and that the device refuses by name: what its message contains. */
export const refusedByDevice: Readonly<Record<string, string>> = {
  // `ptxas` reads a register that the program has not named.
  "vec v2 z": "it has only 2 components",
  "vec v2 z 2": "it has only 2 components",
  "vec v2 w": "it has only 2 components",
  // `ptxas` warns that it ignores the qualifier, and places a variable of zeros.
  "mod extern const": "this module declares it but does not define it",
  "variadic": "variadic parameters are not supported",
  // `ptxas` counts from the start of the bank of constants.
  "mov b32 const": "in .const has 64 bits here",
  "const 32 bit ld addr": "in .const has 64 bits here",
};

/** PTX that ptxas refuses, and that the device takes. */
export const takenByDevice: ReadonlySet<string> = new Set([
  // What a name stands for does not depend on where it is declared.
  "init func later",
  "init later var",
  "init entry",
  "func forward undeclared",
  "branchtargets later",
  "alias without decl",
  // Only what is called has to be defined, and to agree with its call.
  "func decl only unused",
  "func mismatch decl",
  "func var for other type",
  // A frame has room for several results, and for vectors, and parameters can be read and written there.
  "fn param two results",
  "fn param vec",
  "entry param align",
  "param written fn",
  "result read",
  "fn ptr attr",
  // A function that nobody calls is not compiled.
  "vec in func barrier",
  "fn reg b8",
  // Heads are read with more lenience, since they may be of a later version of PTX.
  "entry ptr before type",
  "entry semicolon body",
  "empty statement",
  "family after",
  "file in function",
  "noinline",
  "extern then define",
  // An address, and a special register, may be an operand of any instruction that takes a number of its width.
  "global 32 bit ld addr",
  "add var addr",
  "st var addr",
  "cvt var addr",
  "setp var addr",
  "var attr unified",
  "target options",
  "loc inlined",
  "dwarf",
  "comment in string",
  "special in add",
  "special in mad",
  "sink",
  // A prototype, too, need not be that of a function that is defined.
  "proto nosemi visible func",
  "proto nosemi noparen",
  "proto nosemi then var",
  "proto nosemi then file",
  "proto nosemi then dwarf section",
  "proto nosemi at end",
  "proto nosemi noreturn",
  "proto nosemi then pragma",
  // A frame has room for registers of every width. ptxas takes these where it does not follow the ABI.
  "fn reg pred param",
  "fn reg pred result",
  "func pred param",
  "func pred param v8",
  "func pred recursion v8",
  "func pred v6",
  "func u16 s16 f16 v8",
  "func u8 v8",
  "func pred indirect",
  "func pred mix param",
  "func param pred",
  "module reg after",
  // Banks of constants hold what any bank holds. ptxas keeps some of them for arrays that a program does not define.
  "early bank 2.1",
]);
