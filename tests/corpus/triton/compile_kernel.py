"""Compiles the Triton kernel of NAME.py, without a GPU, and prints its PTX.

`python3 compile_kernel.py NAME CAPABILITY [WARPS]`. NAME.py has a kernel of the same name, and the dictionaries
`arguments`, which are the types of the kernel's arguments in order, and `constants`. `warps` is 4 unless the file or
the command says otherwise. The first line of the output says how the kernel is launched.
"""

import importlib
import sys

import triton
from triton.backends.compiler import GPUTarget

name, capability, *warps = sys.argv[1], *map(int, sys.argv[2:])
program = importlib.import_module(name)
signature = program.arguments | {constant: "constexpr" for constant in program.constants}
pointers = [i for i, kind in enumerate(program.arguments.values()) if kind.startswith("*")]
source = triton.compiler.ASTSource(
    fn=getattr(program, name),
    signature=signature,
    constexprs=program.constants,
    # What Triton finds at a launch: addresses that are multiples of 16 allow vector accesses.
    attrs={(i,): [["tt.divisibility", 16]] for i in pointers},
)
options = {"num_warps": warps[0] if warps else getattr(program, "warps", 4)} | getattr(program, "options", {})
kernel = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
metadata = kernel.metadata
print(
    f"// Triton {triton.__version__}: blocks of {metadata.num_warps * 32} threads, {metadata.shared} bytes of shared "
    f"memory, {metadata.global_scratch_size} bytes of global scratch memory"
)
print(kernel.asm["ptx"])
