# {"dynamic": null}
def f(x, y, n, items, table, box):
    try:
        v = y.t()
        w = F.batch_norm(v, None, None, training=True)
    except Exception as e:
        LOG.append(told(e))
    for i1 in range(4):
        with contextlib.ExitStack() as stack:
            if y.shape == y.shape: return math.floor(n * 1.5)
    return x, x, n, items
