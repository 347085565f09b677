# {"dynamic": null}
def f(x, y, n, items, table, box):
    t1 = y[0]
    LOG.append({i: v.sum().item() for i, v in enumerate(y[:2])})
    for i9, v in enumerate(t1[:2]):
        g10 = (v * i for i in l3)
    return x, t1, i11, items
