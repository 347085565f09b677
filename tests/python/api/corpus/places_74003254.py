# {"inputs": [["int32", [4, 6], "offset"], ["float32", [70, 130], "contiguous"], ["float32", [9, 40], "transposed"], ["index", [4], "contiguous"], ["index", [9], "contiguous"]], "dynamic": null, "gradients": true}
def f(x, y, z, i, j):
    t0 = z.cummin(0)[0]
    t1 = t0.std(0, unbiased=False)
    return t1,
