// How long guards let objects live, what they run, threads, pairs of arguments, their words.
#include <gtest/gtest.h>

#include <string>

#include "cpython/python.h"
#include "guard_module.h"
#include "guarded_model.h"

namespace braze::guard::testing {
namespace {

using cpython::testing::Program;
using cpython::testing::repr;

TEST(GuardSet, KeepsNoArgumentAlive) {
  Program program(kPrelude);
  program.run(kSetup);
  program.run(
      "call(); call(); call()\n"
      "seen = [weakref.ref(o) for o in (model, model.first, model.config, model.first.weight,\n"
      "        model.nested[2], data['t'])]\n"
      "del model, data; gc.collect()\n");
  EXPECT_EQ(repr(program.eval("all(r() is None for r in seen)")), "True");
}

TEST(GuardSet, LetsObjectsDie) {
  Program program(kPrelude);
  program.run(kSetup);
  program.run(R"(
class Holder:
    def __init__(self):
        self.number, self.own, self.items = 1, Config(), [Config()]
        self.own.back = self
        self.method = lambda: self
def f(h): pass
h = Holder()
c = Capture(f, h)
p = c.arg(0).of_type()
p.attr('number').same()
p.attr('own').of_type().attr('scale').same()
p.attr('items').of_type().item(0).of_type().attr('scale').same()
c.build()
del p
results = [c.check(h) for _ in range(3)]
seen = [weakref.ref(h), weakref.ref(h.own), weakref.ref(h.items[0])]
del h
gc.collect()
dead = [r() is None for r in seen]
# Other objects may now be where these were.
fresh = [Holder() for _ in range(200)]
again = [c.check(h) for h in fresh]
for h in fresh: h.own.scale = 7.0
changed = [c.check(h) for h in fresh]
)");
  EXPECT_EQ(repr(program.eval("results, dead, all(again), any(changed)")),
            "([True, True, True], [True, True, True], True, False)");
}

// Addresses are used again at once by numbers and tuples: equal pointers prove nothing.
TEST(GuardSet, AddressesUsedAgain) {
  Program program(kPrelude);
  program.run(kSetup);
  program.run(R"(
class State: pass
def f(s, t): pass
s = State(); s.number = 1000.5; s.items = [2000.5]; s.pair = [(1000.25, [1])]
t = (3000.5, 1)
c = Capture(f, s, t)
p = c.arg(0)
p.attr('number').same(); p.attr('items').item(0).same()
p.attr('pair').item(0).of_type().item(0).same()
c.arg(1).of_type().item(0).same()
c.build()
good = [c.check(s, (3000.5, 1)) for _ in range(3)]
bad = 0
def step(v):
    global bad
    s.number = v; bad += c.check(s, (3000.5, 1)); s.number = 1000.5
    s.items[0] = v; bad += c.check(s, (3000.5, 1)); s.items[0] = 2000.5
    s.pair[0] = (v, [1]); bad += c.check(s, (3000.5, 1)); s.pair[0] = (1000.25, [1])
    bad += c.check(s, (v, 1))
    good.append(c.check(s, (3000.5, 1)))
for i in range(3000): step(i + 0.125)
)");
  EXPECT_EQ(repr(program.eval("all(good), bad")), "(True, 0)");
}

TEST(GuardSet, RunsNoUserCode) {
  Program program(kPrelude);
  program.run(R"(
ran = []
class Odd:
    def __eq__(self, other): ran.append('eq'); return True
    __hash__ = object.__hash__
    def __len__(self): ran.append('len'); return 1
    def __getattr__(self, name): ran.append(name); raise AttributeError(name)
    @property
    def p(self): ran.append('p'); return 1
class Number(float):
    def __eq__(self, other): ran.append('eq'); return True
    __hash__ = float.__hash__
class Meta(type):
    def __eq__(cls, other): ran.append('meta'); return True
    __hash__ = type.__hash__
class WithMeta(metaclass=Meta): pass
def f(o, n): pass
o, n = Odd(), Number(1.5)
o.value, o.number, o.cls = 3, n, WithMeta
c = Capture(f, o, n)
p = c.arg(0).of_type(); p.attr('value').same(); p.attr('number').same(); p.absent('missing')
p.attr('cls').is_()
p.absent('p')
c.arg(1).same()
c.build()
results = [c.check(o, n) for _ in range(4)]
o.value = 4
results.append(c.check(o, n)); results.append(c.why(o, n))
o.value = 3; o.number = Number(1.5)
results.append(c.check(o, n))
)");
  EXPECT_EQ(repr(program.eval("ran")), "[]");
  EXPECT_EQ(repr(program.eval("results")),
            "[True, True, True, True, False, 'o.value: 3 -> 4', False]");
}

TEST(GuardSet, ReentrantCallsAreRefused) {
  Program program(kPrelude);
  program.run(R"(
def f(x): pass
inner = []
def native(): inner.append(c.check(1)) if c.args is None else None; return 5
c = Capture(f, 1)
c.native(native).same()
c.arg(0).same()
c.build()
results = [c.check(1) for _ in range(2)]
)");
  EXPECT_EQ(repr(program.eval("results, inner")), "([True, True], [False, False])");
}

TEST(GuardSet, WithoutGuardsOnlyTheThreadCounts) {
  Program program(kPrelude);
  program.run(R"(
def f(): pass
c = Capture(f).build()
results = [c.check(), c.why(), c.describe()]
with torch.no_grad(): results += [c.check(), c.why()]
)");
  EXPECT_EQ(repr(program.eval("results")), "[True, '', [], False, 'grad mode: on -> off']");
}

TEST(GuardSet, ManyThreads) {
  Program program(kPrelude);
  program.run(kSetup);
  program.run(R"(
import sys, threading
sys.setswitchinterval(1e-6)
errors = []
def work(i):
    mine = Model()
    for n in range(300):
        scale = 2.0 + (n % 3 == i % 3)
        mine.config.scale = scale
        mine.calls = n
        if c.check(mine, x, True, data) and scale != 2.0: errors.append((i, n))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
sys.setswitchinterval(0.005)
)");
  EXPECT_EQ(repr(program.eval("errors, call()")), "([], True)");
}

TEST(GuardSet, InputsNeedTensorGuards) {
  Program program(kPrelude);
  program.run(R"(
def f(x): pass
c = Capture(f, 1)
c.inputs.append(c.arg(0).same().id)
try: c.build()
except RuntimeError as e: error = str(e)
)");
  EXPECT_NE(repr(program.eval("error")).find("graph input argument 0 has no tensor guard"),
            std::string::npos);
}

TEST(GuardSet, PairsOfArguments) {
  Program program(kPrelude);
  program.run(R"(
def f(a, b): pass
t, u = torch.ones(3), torch.ones(3)
c = Capture(f, t, t)
a, b = c.arg(0).tensor(), c.arg(1).tensor()
b.guard('SameObject', None, a)
c.build()
same = [c.check(t, t), c.check(t, u), c.why(t, u)]
base = torch.ones(8)
twin = torch.frombuffer(memoryview(base.numpy()), dtype=torch.float32)
c = Capture(f, base[:4], base[2:6])
a, b = c.arg(0).tensor(), c.arg(1).tensor()
b.guard('SharedMemory', (8, True), a)
c.build()
views = [c.check(base[:4], base[2:6]), c.check(base[1:5], base[3:7]), c.check(base[:4], base[3:7]),
         c.check(base[:4], twin[2:6]), c.why(base[:4], torch.ones(4))]
)");
  EXPECT_EQ(repr(program.eval("same")), "[True, False, 'b: expected the same object as a']");
  EXPECT_EQ(repr(program.eval("views")),
            "[True, True, False, False, 'b: expected to share memory, at the same place, with a']");
}

TEST(GuardSet, MemoriesThatAreDisjoint) {
  Program program(kPrelude);
  program.run(R"(
def f(a, b, c, d): pass
base = torch.ones(40)
twin = torch.frombuffer(memoryview(base.numpy()), dtype=torch.float32)
# `a` and `b` are one memory, which is written.
at = lambda *places: [base[p:p + 4] if p < 40 else twin[p - 40:p - 36] for p in places]
c = Capture(f, *at(0, 2, 10, 20))
sources = [c.arg(i).tensor() for i in range(4)]
c.memories(sources, [0, 0, 1, 2], 1).build()
found = {places: c.check(*at(*places)) for places in [
    (0, 2, 10, 20), (30, 32, 10, 20),
    (0, 2, 3, 20), (0, 2, 20, 3), (20, 22, 10, 17), (20, 22, 10, 16),  # with what is written
    (0, 2, 10, 12), (0, 2, 10, 10),                                    # among what is read
    (0, 2, 43, 20), (0, 2, 46, 20),                                    # another storage
    (0, 20, 10, 14), (0, 20, 10, 18),                                  # between parts of a memory
]}
why = c.why(*at(0, 2, 43, 20))
empty = Capture(f, base[:0], *at(0, 0, 0))
empty.memories([empty.arg(i).tensor() for i in range(4)], [0, 1, 2, 3], 1).build()
nothing = empty.check(base[:0], *at(0, 0, 0))
)");
  EXPECT_EQ(repr(program.eval("list(found.values())")),
            "[True, True, False, False, False, True, True, True, False, True, True, False]");
  EXPECT_EQ(repr(program.eval("why")), "'a: expected to share no memory with c'");
  EXPECT_EQ(repr(program.eval("c.describe()[-1]")), "'a, b, c, d share no memory'");
  EXPECT_EQ(repr(program.eval("nothing")), "True");
}

TEST(GuardSet, DescribesItself) {
  Program program(kPrelude);
  program.run(kSetup);
  const std::string lines = repr(program.eval("'\\n'.join(c.describe())"));
  for (const char* line :
       {"model.training == True", "type(model.first) is class torch.nn.modules.linear.Linear",
        "model.layers[2].weight is like float32[4, 4] with requires_grad", "captured == 5",
        "len(model.sizes) == 3", "model.forward does not exist", "SCALE == 3",
        "other_module.limit == 10", "data['t'] is not data['list'][0]",
        "keys of model.order == ('a', 'b')", "torch.is_grad_enabled() == True"})
    EXPECT_NE(lines.find(line), std::string::npos) << line << " in " << lines;
}

TEST(GuardSet, LeaksNothing) {
  Program program(kPrelude);
  program.run(kSetup);
  program.run(R"(
import sys
def counts(): return [sys.getrefcount(o) for o in
    (model, model.first, model.first.weight, x, Model, Config, function, helper, data, model.sizes)]
def use():
    c = capture(model, x, True, data)
    for _ in range(3): c.check(model, x, True, data)
    model.config.scale = 3.0; c.check(model, x, True, data); c.why(model, x, True, data)
    model.config.scale = 2.0; c.check(model, x, True, data); c.describe()
use(); gc.collect()
before = counts()
for _ in range(20): use()
gc.collect()
after = counts()
)");
  EXPECT_EQ(repr(program.eval("before")), repr(program.eval("after")));
}

}  // namespace
}  // namespace braze::guard::testing
