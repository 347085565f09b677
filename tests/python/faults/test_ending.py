"""The end of the interpreter, and of the process, while threads compile or run compiled code."""

import subprocess
import sys

import pytest

PROGRAMS = {
    "daemons_run": """
        fast, other, big = braze.compile(f), braze.compile(breaks), torch.randn(300, 300)
        fast(X), other(X), fast(big)
        def work():
            while True:
                fast(X)
                other(X)
                fast(big)
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.1)
    """,
    "daemons_run_with_symbols": """
        fast = braze.compile(f, dynamic=True)
        def work(seed):
            r = random.Random(seed)
            while True:
                fast(X[: r.randrange(2, 13)])
        for k in range(4):
            threading.Thread(target=work, args=(k,), daemon=True).start()
        time.sleep(0.3)
    """,
    "daemons_compile": """
        def work():
            k = 0
            while True:
                k += 1
                braze.compile(lambda x, k=k: torch.sin(x) * k + random.random())(X)
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.1 + random.random() * 0.3)
    """,
    "daemons_capture_what_breaks": """
        def g(x):
            y = torch.relu(x)
            for k in range(3):
                if y.sum() > 1e9:
                    return y
                y = torch.tanh(y) * len(str(y.shape)) + k
            return y
        def work():
            while True:
                fast = braze.compile(g)
                fast(X)
                fast(X)
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.2 + random.random() * 0.3)
    """,
    "daemons_resume_generators": """
        @braze.compile
        def squares(x):
            for k in range(4):
                yield x * k + 1
        def work():
            while True:
                sum(squares(X))
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.2)
    """,
    "daemons_write_to_objects": """
        class Counter:
            def __init__(self):
                self.calls, self.seen = 0, []
            def __setattr__(self, name, value):
                object.__setattr__(self, name, value)
        c = Counter()
        def g(x):
            c.calls += 1
            c.seen = [x + c.calls]
            return x * 2
        fast = braze.compile(g, dynamic=True)
        def work():
            while True:
                fast(X)
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
    """,
    "a_daemon_waits_for_the_compiler": """
        os.environ["CXX"] = CXX
        braze._C.reload_options()
        threading.Thread(target=once, daemon=True).start()
        time.sleep(0.4)
    """,
    "a_backend_of_a_daemon_waits": """
        inside = threading.Event()
        def backend(graph, inputs):
            inside.set()
            time.sleep(100)
        slow = braze.compile(lambda x: x + 1, backend=backend)
        threading.Thread(target=lambda: slow(X), daemon=True).start()
        assert inside.wait(20)
    """,
    "a_traced_function_of_a_daemon_waits": """
        inside = threading.Event()
        class Lazy:
            def __getattr__(self, name):
                inside.set()
                time.sleep(100)
        lazy = Lazy()
        @braze.compile
        def g(x):
            return x + lazy.value
        threading.Thread(target=lambda: g(X), daemon=True).start()
        assert inside.wait(20)
    """,
    "exit_handlers_and_finalisers_compile": """
        import atexit
        fast, other = braze.compile(f), braze.compile(breaks)
        fast(X), other(X)
        class Last:
            def __del__(self):
                fast(X)
        cycle, plain = Last(), Last()
        cycle.itself = cycle
        atexit.register(lambda: same(fast(X), W))
        atexit.register(lambda: same(braze.compile(lambda x: x + 4)(X), X + 4))
        sys.keep = braze.compile(torch.nn.Linear(11, 3))
        sys.keep(X)
        @braze.compile
        def numbers(x):
            for k in range(5):
                yield x * k
        waiting = numbers(X)
        next(waiting), next(waiting)
    """,
    "exit_in_a_compiled_function": """
        @braze.compile
        def g(x):
            y = torch.sin(x)
            sys.exit(0)
        g(X)
    """,
    "exit_handlers_wait_for_daemons": """
        import atexit
        fast = braze.compile(f)
        done = threading.Event()
        stop = False
        def work():
            while not stop:
                same(fast(X), W)
            done.set()
        threading.Thread(target=work, daemon=True).start()
        def finish():
            global stop
            stop = True
            assert done.wait(20)
        atexit.register(finish)
    """,
    "threads_that_are_no_daemons_finish": """
        fast = braze.compile(f)
        def work():
            for _ in range(20):
                same(fast(X), W)
            once(breaks)
            print("finished", flush=True)
        threading.Thread(target=work).start()
    """,
    "executors_finish": """
        from concurrent.futures import ThreadPoolExecutor
        fast = braze.compile(f)
        pool = ThreadPoolExecutor(3)
        for n in range(2, 9):
            pool.submit(fast, X[:n])
    """,
    "a_timer_fires_late": """
        fast = braze.compile(f)
        fast(X)
        for k in range(20):
            timer = threading.Timer(0.01 * k, fast, (X,))
            timer.daemon = True
            timer.start()
        time.sleep(0.1)
    """,
    "a_child_ends_while_its_parent_had_daemons": """
        fast = braze.compile(f)
        fast(X)
        def work():
            while True:
                fast(X)
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        pid = os.fork()
        if pid:
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        else:
            same(fast(X), W)
            threading.Thread(target=work, daemon=True).start()
            time.sleep(0.05)
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_end(name, program, compiler):
    source = PROGRAMS[name]
    source = source.replace("= CXX", f"= {str(compiler('sleep 5'))!r}")
    for _ in range(2 if "random" in source or "daemons" in name else 1):
        text = program(source)
        assert text == ("finished\n" if "finished" in source else ""), text


def test_terminate_still_ends_the_process(program):
    """What std::terminate is called for elsewhere is as it was."""
    program(
        """
        import ctypes
        signal.signal(signal.SIGABRT, signal.SIG_DFL)
        ctypes.CDLL("libstdc++.so.6")._ZSt9terminatev()
        """,
        verdict="SIGABRT",
    )


LATE_THREAD = """
    #include <atomic>
    #include <mutex>
    #include <thread>
    extern "C" int PyGILState_Ensure();
    extern "C" int _Py_IsFinalizing();
    static std::mutex mutex;
    static std::atomic<bool> locked;
    extern "C" void start() {
      std::thread([]() noexcept {
        std::lock_guard lock(mutex);
        locked = true;
        while (!_Py_IsFinalizing()) std::this_thread::yield();
        PyGILState_Ensure();  // unwinds at the interpreter's end, and may not
      }).detach();
      while (!locked) std::this_thread::yield();
    }
    extern "C" void wait() { std::lock_guard lock(mutex); }
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="no thread is ended: Python before 3.14")
def test_threads_of_others_end_the_process_as_without_us(program, tmp_path):
    """One that stayed would hold what the main thread is about to wait for."""
    (tmp_path / "late.cpp").write_text(LATE_THREAD)
    library = tmp_path / "late.so"
    build = ["g++", "-std=c++20", "-shared", "-fPIC", "-o", library, tmp_path / "late.cpp"]
    subprocess.run(build, check=True)
    program(
        f"""
        import ctypes
        signal.signal(signal.SIGABRT, signal.SIG_DFL)
        fast = braze.compile(f)
        fast(X)
        late = ctypes.PyDLL({str(library)!r})
        class Last:
            wait = ctypes.CDLL({str(library)!r}).wait
            def __del__(self):
                self.wait()
        sys.keep = Last()
        late.start()
        """,
        verdict="SIGABRT",
    )
