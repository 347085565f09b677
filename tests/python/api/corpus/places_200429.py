# {"inputs": [["float32", [9, 40], "contiguous"], ["float32", [4, 1], "transposed"], ["uint8", [4, 6], "transposed"], ["index", [40], "contiguous"], ["index", [1], "contiguous"]], "dynamic": true}
def f(x, y, z, i, j):
    t0 = aten.embedding_dense_backward(x.index_select(0, (i % x.shape[0] - x.shape[0])).flatten(1), (i % x.shape[0] - x.shape[0]), x.shape[0], -1, False)
    return t0,
