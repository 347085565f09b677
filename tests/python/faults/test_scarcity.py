"""Little memory, no threads, interrupts at any moment."""

import pytest


@pytest.mark.parametrize("cold", [True, False])
@pytest.mark.parametrize("megabytes", [0, 1, 2, 4, 7, 9, 12, 20, 60])
def test_little_address_space(megabytes, cold, program):
    """No room for the stack of a thread, for an arena, for a library."""
    if not cold:
        program("once()")
    program(
        f"""
        import gc, sympy, traceback
        with open("/proc/self/statm") as file:
            size = int(file.read().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (size + ({megabytes} << 20), -1))
        try:
            once()
        except (MemoryError, RuntimeError, OSError, ImportError):
            pass
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
        once()
        once(breaks)
        """
    )


@pytest.mark.parametrize("seed", range(4))
def test_interrupts_at_random_moments(seed, program):
    """KeyboardInterrupt comes in the call or right behind it; what is called later works."""
    program(
        f"""
        random.seed({seed})
        signal.signal(signal.SIGINT, signal.default_int_handler)
        calls = []
        def g(x, k):
            calls.append("in")
            for _ in range(10):
                x = torch.sin(x) * (0.5 + 0.01 * k) + x.sum(-1, keepdim=True) * 0.001
            calls.append("out")
            return x
        for k in range(12):
            fast, want = braze.compile(g, dynamic=False), g(X, k)
            calls.clear()
            try:
                timer = threading.Timer(random.random() * 0.3, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
                same(fast(X, k), want)
                assert calls == ["in", "out"], calls
                time.sleep(1)
                raise AssertionError("the interrupt is lost")
            except KeyboardInterrupt:
                assert calls in ([], ["in"], ["in", "out"]), calls
            timer.join()
            same(fast(X, k), want)
            same(fast(X, k), want)
        """
    )


def test_a_signal_handler_that_compiles_during_a_compile(program):
    program(
        """
        def handler(*_):
            same(braze.compile(lambda x: x * 2 + 1)(X), X * 2 + 1)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        for k in range(4):
            once(lambda x, k=k: torch.sin(x) * k + f(x))
        signal.setitimer(signal.ITIMER_REAL, 0)
        """
    )


def test_small_stacks(program):
    program(
        """
        threading.stack_size(256 * 1024)
        failed = []
        def work():
            try:
                once()
                once(breaks)
            except BaseException as error:
                failed.append(error)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert not failed, failed
        """
    )


def test_processes_that_are_killed_while_they_compile(program, tmp_path):
    """What they leave behind disturbs nobody."""
    text = program(
        """
        random.seed(1)
        for k in range(12):
            def work(k=k):
                once(lambda x: torch.sin(x) * (k // 3) + 3)
                once(breaks)
            pid = child(work)
            time.sleep(random.random() * 0.4)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            reap([child(work)])
        """
    )
    assert text == "", text
