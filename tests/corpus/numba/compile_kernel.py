"""Compiles the Numba kernel of NAME.py, without a GPU, and prints its PTX.

`python3 compile_kernel.py NAME [debug]`. NAME.py has a function of the same name and `signature`, the types of its
arguments.
"""

import importlib
import sys
from types import SimpleNamespace

import numba
import numba.cuda.dispatcher
from numba import cuda

# Functions that a kernel calls are compiled for the current device, of which there may be none.
capability = (9, 0)
numba.cuda.dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)

name = sys.argv[1]
program = importlib.import_module(name)
debug = "debug" in sys.argv
ptx, _ = cuda.compile_ptx(getattr(program, name), program.signature, debug=debug, opt=not debug, cc=capability)
print(f"// Numba {numba.__version__}")
print(ptx)
