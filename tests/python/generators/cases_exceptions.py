"""Generator functions with what is done with their generators: exceptions, closing, delegating."""

import contextlib

import torch
from cases_values import X, everything
from showing import described

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def caught(action, *args):
    try:
        return action(*args)
    except BaseException as error:
        return described(error)


@case
def raises_behind_a_yield():
    def f(x):
        yield x + 1
        y = x * 2
        raise ValueError(y.shape)

    def use(make):
        g = make(X)
        return next(g), caught(next, g), next(g, None)

    return f, use


@case
def raises_at_once():
    def f(x):
        x = x.sin()
        raise KeyError("first")
        yield x

    return f, lambda make: caught(next, make(X))


@case
def error_of_an_operator():
    def f(x):
        yield x + 1
        yield x @ x
        yield x

    def use(make):
        g = make(X)
        return next(g), caught(next, g), next(g, "gone")

    return f, use


@case
def error_below_in_a_helper():
    def helper(x, k):
        if k == 2:
            raise RuntimeError(f"at {k}")
        return x * k

    def f(x):
        for k in range(5):
            yield helper(x, k)

    def use(make):
        return caught(list, make(X))

    return f, use


@case
def catches_its_own_errors():
    def f(x):
        for k in range(4):
            try:
                if k % 2:
                    raise ValueError(k)
                yield x * k
            except ValueError as error:
                yield error.args[0], x + k
            else:
                yield "else"
            finally:
                yield "finally"

    return f, everything


@case
def throws_that_are_caught():
    def f(x):
        k = 0
        while k < 5:
            k += 1
            try:
                got = yield x * k
                x = x + (1 if got is None else got)
            except ValueError as error:
                x = x * error.args[0]
        return x

    def use(make):
        g = make(X)
        out = [next(g), g.throw(ValueError(3)), g.send(2), g.throw(ValueError(-1)), next(g)]
        return out, caught(g.throw, ValueError(7)), caught(next, g)

    return f, use


@case
def throws_that_are_not_caught():
    def f(x):
        yield x * 2
        yield x * 3

    def use(make):
        new, going = make(X), make(X)
        next(going)
        return (
            caught(new.throw, ValueError("new")),
            caught(next, new),
            caught(going.throw, KeyError("going")),
            caught(next, going),
            caught(going.throw, KeyError("ended")),
        )

    return f, use


@case
def finally_at_the_end_of_all_kinds():
    log = []

    def f(x):
        try:
            for k in range(3):
                yield x + k
        finally:
            log.append(float((x * 2).sum()))

    def use(make):
        log.clear()
        list(make(X))
        g = make(X)
        next(g)
        g.close()
        g = make(X)
        next(g)
        del g
        g = make(X)
        next(g)
        error = caught(g.throw, OSError("thrown"))
        make(X).close()
        return log[:], error

    return f, use


@case
def close_and_what_follows():
    def f(x):
        while True:
            yield x.relu()

    def use(make):
        g = make(X)
        next(g)
        g.close()
        g.close()
        return next(g, "closed"), caught(g.send, 1), g.gi_frame, caught(g.throw, ValueError)

    return f, use


@case
def close_that_is_refused():
    def f(x):
        while True:
            try:
                yield x * 2
            except GeneratorExit:
                yield "no"
                return

    def use(make):
        g = make(X)
        next(g)
        return caught(g.close), next(g, "end")

    return f, use


@case
def stop_iteration_inside():
    def f(x):
        yield x + 1
        yield next(iter([]))

    def use(make):
        return caught(list, make(X))

    return f, use


@case
def stop_iteration_thrown():
    def f(x):
        yield x + 1
        yield x

    def use(make):
        g = make(X)
        next(g)
        return caught(g.throw, StopIteration(3))

    return f, use


@case
def with_over_yields():
    log = []

    @contextlib.contextmanager
    def manager(name):
        log.append("enter " + name)
        try:
            yield name
        except ValueError:
            log.append("caught in " + name)
        finally:
            log.append("exit " + name)

    def f(x):
        with manager("a"), manager("b") as b:
            for k in range(2):
                y = x * k + 1
                yield y, b
            raise ValueError(b)
        yield x - 1

    def use(make):
        log.clear()
        g = make(X)
        next(g)
        g.close()
        return list(make(X)), log[:]

    return f, use


@case
def torch_modes_over_yields():
    def f(x):
        with torch.no_grad():
            yield torch.is_grad_enabled(), x * 2
            yield x + 1
        yield torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        yield torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        yield torch.is_grad_enabled()

    return f, everything


@case
def is_a_context_manager():
    log = []

    def f(x):
        y = x * 2
        log.append("in")
        try:
            yield y.sum()
        except KeyError as error:
            log.append(repr(error))
            y = y + 1
        finally:
            log.append(float(y.sum()))

    def use(make):
        log.clear()
        managed = contextlib.contextmanager(make)
        with managed(X) as y:
            pass
        with managed(X):
            raise KeyError("x")
        return y, caught(exit_with, managed(X), OSError("y")), log[:]

    def exit_with(manager, error):
        with manager:
            raise error

    return f, use


@case
def handlers_with_names():
    def f(x):
        try:
            yield
        except ValueError as error:
            raise KeyError(x.shape) from error
        try:
            pass
        finally:
            yield x + 1
        while True:
            try:
                yield x * 2
            except OSError as error:
                yield error.args
                break

    def use(make):
        a, b = make(X), make(X)
        next(a)
        out = [next(b), next(b), next(b), b.throw(OSError(1)), next(b, "end")]
        return out, caught(a.throw, ValueError())

    return f, use
