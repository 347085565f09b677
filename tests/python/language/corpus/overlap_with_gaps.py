# {"dynamic": true}
def f(x, y, n, items, table, box):
    x = y.view(3, 2)
    x[:, 1] += y.reshape(-1)[:3]
    return y, x, n, items
