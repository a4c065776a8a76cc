"""Writes files as NumPy, ml_dtypes and safetensors do, and checks those that poolpass has written.

    python_files.py modules             prints which of the modules are installed
    python_files.py write|check FOLDER
"""
import importlib.util
import json
import os
import sys

MODULES = [name for name in ("numpy", "ml_dtypes", "safetensors") if importlib.util.find_spec(name)]
NUMPY = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
         "float64", "complex64", "complex128"]
ML_DTYPES = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz"]


def bits(dtype):
    """The bytes of an array of shape (2, 3, 4): the same as in the test."""
    import numpy
    return numpy.array([index * 7 % 251 for index in range(24 * dtype.itemsize)], numpy.uint8)


def dtypes():
    import numpy
    found = {name: numpy.dtype(name) for name in NUMPY}
    if "ml_dtypes" in MODULES:
        import ml_dtypes
        found.update({name: numpy.dtype(getattr(ml_dtypes, name)) for name in ML_DTYPES})
    return found


def write(folder):
    import numpy
    arrays = {name: bits(dtype).view(dtype).reshape(2, 3, 4) for name, dtype in dtypes().items()}
    for name, array in arrays.items():
        numpy.save(f"{folder}/{name}.npy", array)
        if name in NUMPY:
            numpy.save(f"{folder}/{name}_fortran.npy", numpy.asfortranarray(array))
            numpy.save(f"{folder}/{name}_big.npy", array.astype(array.dtype.newbyteorder(">")))
    known = {name: array for name, array in arrays.items() if name in NUMPY}
    numpy.savez(f"{folder}/stored.npz", **known)
    numpy.savez_compressed(f"{folder}/compressed.npz", **known)
    if "safetensors" in MODULES:
        from safetensors.numpy import save_file
        names = [name for name in NUMPY if name != "complex128"]
        save_file({name: arrays[name] for name in names}, f"{folder}/python.safetensors", {"format": "np"})
    print(json.dumps(sorted(arrays)))


def check(folder):
    import numpy
    for name, dtype in dtypes().items():
        loaded = numpy.load(f"{folder}/{name}.npy")
        if name in NUMPY:
            assert loaded.dtype == dtype, (name, loaded.dtype)
        assert loaded.shape == (2, 3, 4), (name, loaded.shape)
        assert loaded.tobytes() == bits(dtype).tobytes(), name
    for archive in ("stored", "compressed"):
        with numpy.load(f"{folder}/{archive}.npz") as loaded:
            for name in NUMPY:
                assert loaded[name].tobytes() == bits(numpy.dtype(name)).tobytes(), name
    if "safetensors" in MODULES:
        from safetensors import safe_open
        with safe_open(f"{folder}/poolpass.safetensors", framework="np") as file:
            assert file.metadata() == {"by": "poolpass"}, file.metadata()
            for name in NUMPY:
                if name != "complex128":
                    assert file.get_tensor(name).tobytes() == bits(numpy.dtype(name)).tobytes(), name
    print("checked")


if __name__ == "__main__":
    if sys.argv[1] == "modules":
        print(json.dumps(MODULES))
    else:
        {"write": write, "check": check}[sys.argv[1]](os.fspath(sys.argv[2]))
