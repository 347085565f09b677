// Random objects, random captures, random changes: the compiled check must agree with reading every
// guard again (`why_not`). A failure prints its seed.
#include <gtest/gtest.h>

#include <string>

#include "cpython/python.h"
#include "guard_module.h"

namespace braze::guard::testing {
namespace {

using cpython::testing::Program;
using cpython::testing::repr;

constexpr char kFuzz[] = R"(
import random
class Plain: pass
class Other(Plain):
    tag = 1
class Slotted:
    __slots__ = ('p', 'q')
NAMES = ['a', 'b', 'c', 'd']
def maker(v, w):
    def fn(x=v, *, k=w): return v, w
    return fn

class Fuzz:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.things = []   # everything that can be changed
    def atom(self):
        r = self.r
        return r.choice([lambda: r.randrange(3), lambda: 1000.0 + r.randrange(3), lambda: 10 ** 20 + r.randrange(3),
                         lambda: 'text%d' % r.randrange(3), lambda: None, lambda: r.random() < .5,
                         lambda: (500.0 + r.randrange(2), 1), lambda: torch.zeros(r.randrange(1, 3)),
                         lambda: nn.Parameter(torch.zeros(2))])()
    def value(self, depth):
        r = self.r
        if depth <= 0 or r.random() < .3: return self.atom()
        if self.things and r.random() < .1: return r.choice(self.things)
        kind = r.randrange(8)
        if kind <= 1:
            o = r.choice([Plain, Other])(); self.things.append(o)
            for n in r.sample(NAMES, r.randrange(1, 4)): setattr(o, n, self.value(depth - 1))
        elif kind == 2:
            o = {}; self.things.append(o)
            for n in r.sample(NAMES, r.randrange(1, 4)): o[n] = self.value(depth - 1)
        elif kind == 3:
            o = []; self.things.append(o)
            for _ in range(r.randrange(1, 4)): o.append(self.value(depth - 1))
        elif kind == 4:
            return tuple(self.value(depth - 1) for _ in range(r.randrange(1, 4)))
        elif kind == 5:
            o = Slotted(); self.things.append(o)
            o.p = self.value(depth - 1); o.q = self.value(depth - 1)
        elif kind == 6:
            o = maker(self.value(depth - 1), self.value(depth - 1)); self.things.append(o)
        else:
            o = r.choice([collections.OrderedDict, collections.deque, set])(); self.things.append(o)
            for n in r.sample(NAMES, 2):
                if isinstance(o, dict): o[n] = self.value(depth - 1)
                elif isinstance(o, set): o.add(n)
                else: o.append(self.value(depth - 1))
        return o
    # ---- capture
    def read(self, path, depth):
        v, r = path.value, self.r
        if isinstance(v, torch.Tensor):
            path.guard('Tensor', v); return
        if v is None or isinstance(v, (bool, int, float, str)):
            path.same(); return
        if r.random() < .8: path.of_type()
        if depth <= 0: return
        if isinstance(v, (Plain,)):
            if r.random() < .3: path.type().on_type('tag').guard('Present' if hasattr(v, 'tag') else 'Absent', None)
            for n in r.sample(NAMES, 3):
                if n not in v.__dict__: path.absent(n)
                elif r.random() < .2: self.read(path.dict().item(n), depth - 1)
                else: self.read(path.attr(n), depth - 1)
        elif isinstance(v, Slotted):
            self.read(path.attr(r.choice('pq')), depth - 1)
        elif isinstance(v, types.FunctionType):
            if r.random() < .5: path.code().is_()
            self.read(path.cell(0), depth - 1)
            self.read(path.default(0), depth - 1)
            if v.__kwdefaults__: self.read(path.kwdefault('k'), depth - 1)
        elif isinstance(v, dict):
            if r.random() < .3: path.length()
            if r.random() < .3: path.guard('Keys', tuple(v))
            for n in r.sample(NAMES, 2):
                if n in v: self.read(path.item(n), depth - 1)
                else: path.lacks(n)
        elif isinstance(v, (list, tuple, collections.deque)):
            if r.random() < .5: path.length()
            for i in range(len(v)):
                if r.random() < .7: self.read(path.item(i), depth - 1)
        elif isinstance(v, set):
            path.guard('SetValue', tuple(v)) if r.random() < .5 else path.length()
    # ---- change
    def change(self):
        r = self.r
        o = r.choice(self.things)
        new = self.value(r.randrange(2))
        # Mostly a value equal to one that may have been there.
        if isinstance(o, Plain):
            what = r.randrange(8)
            name = r.choice(NAMES)
            if what == 0: o.__dict__.pop(name, None)
            elif what == 1: o.__dict__ = dict(o.__dict__)
            elif what == 2: o.__class__ = r.choice([Plain, Other])
            elif what == 3: o.__dict__[name] = new
            elif what == 4 and name in o.__dict__: setattr(o, name, o.__dict__[name])
            else: setattr(o, name, new)
        elif isinstance(o, Slotted): setattr(o, r.choice('pq'), new)
        elif isinstance(o, types.FunctionType):
            what = r.randrange(5)
            if what == 0: o.__closure__[0].cell_contents = new
            elif what == 1: o.__defaults__ = (new,)
            elif what == 2 and o.__kwdefaults__: o.__kwdefaults__['k'] = new
            elif what == 3: o.__kwdefaults__ = r.choice([None, {'k': new}])
            else: o.__code__ = o.__code__.replace() if r.random() < .5 else maker(1, 2).__code__
        elif isinstance(o, dict):
            name = r.choice(NAMES)
            if r.random() < .2: o.pop(name, None)
            elif r.random() < .2 and isinstance(o, collections.OrderedDict) and o: o.move_to_end(next(iter(o)))
            else: o[name] = new
        elif isinstance(o, list):
            what = r.randrange(6)
            if what == 0: o.append(new)
            elif what == 1 and o: o.pop()
            elif what == 2: o[:] = list(o)
            elif o: o[r.randrange(len(o))] = new
        elif isinstance(o, collections.deque):
            if r.random() < .3: o.rotate()
            elif o: o[r.randrange(len(o))] = new
        elif isinstance(o, set):
            o.discard(r.choice(NAMES)) if r.random() < .5 else o.add(r.choice(NAMES))
        if r.random() < .05:
            setattr(r.choice([Plain, Other]), 'unread%d' % r.randrange(3), 1)
        if r.random() < .02: Other.tag = 2
        del new

def run(seed):
    Other.tag = 1
    fuzz = Fuzz(seed)
    r = fuzz.r
    roots = [fuzz.value(4) for _ in range(3)]
    cell_root = fuzz.value(4)
    def outer():
        held = cell_root
        def f(a, b, c): return held
        return f
    f = outer()
    while not fuzz.things: fuzz.value(3)
    sets, passed, failed = [], 0, 0
    def capture():
        c = Capture(f, *roots)
        for i in range(3): fuzz.read(c.arg(i), 5)
        fuzz.read(c.fn().cell(0), 5)
        return c.build()
    sets = [capture()]
    for step in range(60):
        for c in list(sets):
            for _ in range(r.randrange(1, 4)):
                got, why = c.check(*roots), c.why(*roots)
                if got != (why == ''): return 'seed %d step %d: check %s, %r' % (seed, step, got, why)
                passed += got; failed += not got
            if not got and r.random() < .5: sets.remove(c)
        if not sets or r.random() < .2: sets = (sets + [capture()])[-3:]
        what = r.random()
        if what < .1: roots[r.randrange(3)] = fuzz.value(3)
        elif what < .15: f.__closure__[0].cell_contents = fuzz.value(3)
        else: fuzz.change()
        if r.random() < .1: fuzz.things = [t for t in fuzz.things if r.random() < .9] or fuzz.things
    return passed, failed

def run_many(first, count):
    passed = failed = 0
    for seed in range(first, first + count):
        result = run(seed)
        if isinstance(result, str): return result
        passed += result[0]; failed += result[1]
    gc.collect()
    return passed > count, failed > count, passed, failed
)";

TEST(Fuzz, CheckAgreesWithReadingEverything) {
  Program program(kPrelude);
  program.run(kFuzz);
  const std::string result = repr(program.eval("run_many(0, 300)"));
  EXPECT_EQ(result.substr(0, 11), "(True, True") << result;
  printf("agreed (passed, failed): %s\n", result.c_str());
}

}  // namespace
}  // namespace braze::guard::testing
