"""The part of cuda-bindings that examples/python/poolpass_client.py uses, on poolpass's software device.

PYTHONPATH selects it, so that the client can be tested with real processes, descriptors and contents on a machine
without a GPU. The formats are those of src/software/memory/pool_file.ts, ipc_handle.ts and interprocess_event.ts. It writes no
leases to the pool's file, and overwrites freed memory: only the sharing protocol protects an importer's mappings.
"""
