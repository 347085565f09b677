"""fork() while other threads compile, capture or run compiled code: the child works."""

import pytest

PROGRAMS = {
    "while_another_compiles": """
        once(breaks)
        stop = False
        def work():
            k = 0
            while not stop:
                k += 1
                once(lambda x, k=k: torch.sin(x) * k + k)
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        def use():
            once()
            once(breaks)
        for _ in range(6):
            time.sleep(random.random() * 0.15)
            reap([child(use) for _ in range(2)])
        stop = True
        thread.join()
    """,
    "while_three_run": """
        fast, big = braze.compile(f), torch.randn(300, 300)
        fast(X), fast(big)
        other = braze.compile(breaks)
        other(X)
        want = f(big)
        stop = False
        def work():
            while not stop:
                same(fast(X), W)
                same(other(X), WB)
                fast(big)
        threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
        [thread.start() for thread in threads]
        def use():
            same(fast(X), W)
            same(other(X), WB)
            same(fast(big), want)
            once()
        for _ in range(10):
            time.sleep(random.random() * 0.03)
            reap([child(use) for _ in range(2)])
        stop = True
        [thread.join() for thread in threads]
    """,
    "while_sizes_vary": """
        fast = braze.compile(f, dynamic=True)
        stop = False
        def work(seed):
            r = random.Random(seed)
            while not stop:
                x = X[: r.randrange(2, 13)]
                same(fast(x), f(x))
        threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(3)]
        [thread.start() for thread in threads]
        def use():
            for n in range(2, 13):
                same(fast(X[:n]), f(X[:n]))
        for _ in range(10):
            time.sleep(random.random() * 0.03)
            reap([child(use) for _ in range(2)])
        stop = True
        [thread.join() for thread in threads]
    """,
    "while_large_outputs_come_and_go": """
        def grow(x):
            return torch.tanh(x) * 2
        fast, big = braze.compile(grow), torch.randn(700, 600)
        want = grow(big)
        fast(big)
        stop = False
        def work():
            while not stop:
                fast(big)
        threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
        [thread.start() for thread in threads]
        def use():
            for _ in range(3):
                same(fast(big), want)
            braze._C.release_memory()
        for _ in range(10):
            time.sleep(random.random() * 0.02)
            reap([child(use) for _ in range(2)])
        stop = True
        [thread.join() for thread in threads]
    """,
    # The frame hook of the trace, the collector that it turns off: the child has neither.
    "in_the_midst_of_a_capture": """
        import gc
        inside, go_on = threading.Event(), threading.Event()
        def backend(graph, inputs):
            inside.set()
            go_on.wait(30)
            return graph.forward
        slow = braze.compile(lambda x: x + 1, backend=backend)
        ready = braze.compile(f)
        ready(X)
        thread = threading.Thread(target=lambda: slow(X))
        thread.start()
        assert inside.wait(30)
        def use():
            same(ready(X), W)
            assert once(breaks)[0] == "plan"
            assert once(lambda x: x * 3) == ["plan"]
            assert gc.isenabled()
        reap([child(use)])
        go_on.set()
        thread.join()
    """,
    "by_a_function_that_is_being_traced": """
        import gc
        def forks():
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                try:
                    assert once() == ["plan"]
                finally:
                    os._exit(0)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        seen = []
        def g(x):
            y = x + 1
            seen.append(forks())
            return y * 2
        same(braze.compile(g)(X), (X + 1) * 2)
        assert seen == [0], seen
    """,
    "and_the_child_returns_from_the_traced_function": """
        def g(x):
            y = x + 1
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
            return y * 2, pid
        fast = braze.compile(g)
        y, pid = fast(X)
        same(y, (X + 1) * 2)
        assert once() == ["plan"]
        if pid == 0:
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    """,
    "a_backend_forks_and_its_child_goes_on": """
        pids = []
        def backend(graph, inputs):
            pids.append(os.fork())
            if pids[-1] == 0:
                signal.alarm(20)
            return graph.forward
        same(braze.compile(lambda x: x + 1, backend=backend)(X), X + 1)
        assert once() == ["plan"]
        if pids == [0]:
            os._exit(0)
        assert os.waitpid(pids[0], 0)[1] == 0
    """,
    "from_many_threads": """
        fast = braze.compile(f)
        fast(X)
        failed = []
        def work():
            for _ in range(5):
                same(fast(X), W)
                pid = child(lambda: (same(fast(X), W), once(breaks)))
                failed.append(os.waitpid(pid, 0)[1])
        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert failed == [0] * 20, failed
    """,
    "of_a_child": """
        fast = braze.compile(f)
        fast(X)
        stop = False
        def work():
            while not stop:
                fast(X)
        threading.Thread(target=work, daemon=True).start()
        def grandchild():
            threading.Thread(target=lambda: [fast(X) for _ in range(2000)], daemon=True).start()
            same(fast(X), W)
            reap([child(lambda: once(breaks)) for _ in range(2)])
        for _ in range(3):
            reap([child(grandchild)])
        stop = True
    """,
    "while_the_cache_is_written_and_cleared": """
        stop = False
        def work():
            while not stop:
                braze._C.clear_cache()
        def compiles():
            k = 0
            while not stop:
                k += 1
                once(lambda x, k=k: torch.cos(x) * k)
        threads = [threading.Thread(target=t, daemon=True) for t in (work, compiles)]
        [thread.start() for thread in threads]
        for _ in range(5):
            time.sleep(random.random() * 0.1)
            reap([child(lambda: once(breaks)) for _ in range(2)])
        stop = True
        [thread.join() for thread in threads]
    """,
    "while_options_are_read_and_logged": """
        stop = False
        fast = braze.compile(f)
        def work():
            while not stop:
                braze._C.reload_options()
                fast(X)
        threading.Thread(target=work, daemon=True).start()
        for _ in range(5):
            reap([child(lambda: (once(breaks), braze._C.reload_options())) for _ in range(2)])
        stop = True
    """,
    "while_generators_run": """
        @braze.compile
        def squares(x):
            for k in range(4):
                yield x * k + 1
        def all_of(x):
            return sum(squares(x))
        want = all_of(X)
        stop = False
        def work():
            while not stop:
                same(all_of(X), want)
        threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
        [thread.start() for thread in threads]
        waiting = squares(X)
        next(waiting)
        def use():
            same(all_of(X), want)
            same(next(waiting), X + 1)
        for _ in range(6):
            time.sleep(random.random() * 0.03)
            reap([child(use) for _ in range(2)])
        stop = True
        [thread.join() for thread in threads]
    """,
    "a_pool_of_workers": """
        import multiprocessing
        fast = braze.compile(f)
        fast(X)
        def work(i):
            return fast(X[: 2 + i % 5]).sum().item()
        globals()["work"] = work
        import __main__
        __main__.work = work
        stop = False
        def run():
            while not stop:
                fast(X)
        threading.Thread(target=run, daemon=True).start()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            got = pool.map(work, range(12))
        stop = True
        for i, value in enumerate(got):
            assert abs(value - f(X[: 2 + i % 5]).sum().item()) < 1e-2
    """,
    "workers_of_a_loader": """
        from torch.utils.data import DataLoader, Dataset
        norm = braze.compile(lambda x: (x - x.mean()) / (x.std() + 1e-5))
        class Rows(Dataset):
            def __len__(self):
                return 16
            def __getitem__(self, i):
                return norm(torch.arange(12.0) * (i + 1))
        norm(torch.ones(12))
        stop = False
        def run():
            while not stop:
                norm(torch.ones(12))
        threading.Thread(target=run, daemon=True).start()
        loader = DataLoader(Rows(), batch_size=4, num_workers=2, multiprocessing_context="fork")
        assert [len(batch) for batch in loader] == [4] * 4
        stop = True
    """,
    # Nobody is in the midst of PyTorch's code, which a capture runs without the GIL.
    "waits_for_the_end_of_a_capture": """
        inside, done = threading.Event(), []
        def in_capture():
            inside.set()
            time.sleep(0.3)
            done.append(True)
        fast = braze.compile(f)
        thread = threading.Thread(target=lambda: same(fast(X), W))
        when_capturing(thread, in_capture)
        thread.start()
        assert inside.wait(30)
        def use():
            assert done
            same(fast(X), W)
        reap([child(use)])
        thread.join()
    """,
    "and_none_begins_behind_the_wait": """
        begin, captured = threading.Event(), []
        fast = braze.compile(f)
        def work():
            begin.wait()
            same(fast(X), W)
        def lets_others_run():
            begin.set()
            time.sleep(0.3)
        thread = threading.Thread(target=work)
        when_capturing(thread, lambda: captured.append(True))
        thread.start()
        HANDLERS.append(lets_others_run)
        def use():
            assert not captured
            same(fast(X), W)
        pids = [child(use)]
        HANDLERS.clear()
        reap(pids)
        thread.join()
        assert captured
    """,
    "with_a_subprocess": """
        fast = braze.compile(f)
        fast(X)
        stop = False
        def work():
            while not stop:
                fast(X)
        threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
        [thread.start() for thread in threads]
        for _ in range(10):
            subprocess.run(["true"], check=True)
            subprocess.run(["true"], check=True, preexec_fn=lambda: None)
        stop = True
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_fork(name, program):
    text = program(PROGRAMS[name], limit=90)
    assert text == "", text


def test_after_openmp_a_child_on_one_thread(program):
    program(
        """
        torch.set_num_threads(2)
        big = torch.randn(600, 600)
        fast = braze.compile(f)
        fast(big)
        want = f(big)
        def use():
            torch.set_num_threads(1)
            same(fast(big), want)
            once()
            once(breaks)
        reap([child(use) for _ in range(2)])
        same(fast(big), want)
        """,
        OMP_NUM_THREADS=2,
    )
