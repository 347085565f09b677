# {"inputs": [["float32", [1, 1], "contiguous"], ["int16", [6], "contiguous"], ["float32", [4, 6], "transposed"], ["index", [200], "contiguous"], ["index", [40], "contiguous"]], "dynamic": true, "gradients": true}
def f(x, y, z, i, j):
    t5 = y + z
    return t5,
