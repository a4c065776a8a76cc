"""The part of cuda-bindings that poolpass uses, on poolpass's software device.

PYTHONPATH selects it, so that the package can be tested with real processes, descriptors and contents on a machine
without a GPU. The formats are those of src/software/memory/shared_file.ts, src/software/ipc/ipc_file.ts and
src/software/ipc/interprocess_event.ts. It writes no leases to the pool's file, and overwrites freed memory: only the
sharing protocol protects an importer's mappings.
"""
