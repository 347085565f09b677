# {"dynamic": true}
def f(x, y, n, items, table, box):
    try:
        for i2 in range(40):
            yield x
    except ValueError:
        pass
    finally:
        LOG.append(F.gumbel_softmax(y, dim=-1, hard=len(box) % 2 == 0))
    return x, x, n, items
