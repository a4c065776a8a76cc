"""Gives poolpass's software device as cuda-bindings, if PYTHONPATH has this folder.

The package then takes the ways that it takes on a GPU, where POOLPASS_DRIVER=software would let NumPy use the memory.
"""
import sys

from poolpass.software import driver, runtime, virtual_memory

for module in (driver, runtime, virtual_memory):
    sys.modules[f"{__name__}.{module.__name__.rpartition('.')[2]}"] = module
