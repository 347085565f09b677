# {"dynamic": null}
def f(x, y, n, items, table, box):
    t1 = box.tensor
    try:
        t1.to(torch.float64).clone().floor_divide_(x.double())
    except Exception as e:
        pass
    return y, x, n, items
