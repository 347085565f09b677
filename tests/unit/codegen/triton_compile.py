"""Compiles kernels with Triton's own compiler, which needs no GPU: `triton_compile.py JOBS OUT`.

JOBS: for each kernel a line with the path of its source, its name and its flags, tabs between. Beside
each source the PTX is left, with what the kernel takes beside its arguments in the first line.
"""

import sys

from _triton_process import compiled, result_of

with open(sys.argv[1]) as jobs:
    for line in jobs:
        path, name, *flags = line.rstrip("\n").split("\t")
        result = result_of(path, name, flags)
        made, _ = compiled(path, name, flags)  # from Triton's cache
        with open(path + ".ptx", "w") as out:
            out.write(f"shared={result['shared']} pointers={result['pointers']}\n")
            out.write(made.asm["ptx"])
