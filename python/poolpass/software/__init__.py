"""A device in software, for machines without a GPU. Implements the part of cuda-bindings that this package uses.

Selected by POOLPASS_DRIVER=software. Processes exchange real descriptors, including with the software devices of
poolpass in other languages: the formats are those of src/software/memory/shared_file.ts, src/software/ipc/ipc_file.ts
and src/software/ipc/interprocess_event.ts. There is one device, which cannot run kernels; each stream has its own
thread.
"""
