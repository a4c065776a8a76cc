"""As much of cuda-bindings as examples/python/poolpass_client.py calls, over poolpass's software device.

Found by way of PYTHONPATH, so that the client is tested with real processes, descriptors and contents on a machine
without a GPU. The formats are those of src/software/memory/pool_file.ts, ipc_handle.ts and interprocess_event.ts. It keeps no
leases in the pool's file, and memory that is freed is overwritten: only the sharing protocol keeps what an importer has
mapped.
"""
