"""A device in software, for machines without a GPU. Implements the part of cuda-bindings that this package uses.

POOLPASS_DRIVER=software selects it. Real processes pass real descriptors, also to poolpass's software device of other
languages: the formats are those of src/software/memory/shared_file.ts, src/software/ipc/ipc_file.ts and
src/software/ipc/interprocess_event.ts. It runs no kernels, has one device, and each stream has a thread.
"""
