#include "guard/value.h"

#include <gtest/gtest.h>

#include "cpython/python.h"
#include "guard/guard.h"

namespace braze::guard {
namespace {

using cpython::Ref;
using cpython::testing::Program;

constexpr char kValues[] = R"(
import enum, torch
class E(enum.Enum):
    A = 1; B = 2
class I(int): pass
class Q:
    def __eq__(self, other): raise SystemExit('user code ran')
    def __hash__(self): return 1
nan = float('nan')
P = __import__('collections').namedtuple('P', 'x y')
)";

struct Pair {
  const char *a, *b;
  bool same;
};

TEST(Value, SameTypeAndBits) {
  Program program(kValues);
  const Pair pairs[] = {
      {"1", "1", true},
      {"1", "True", false},
      {"1", "1.0", false},
      {"0.0", "-0.0", false},
      {"nan", "float('nan')", true},
      {"10**30", "10**30", true},
      {"10**30", "10**30 + 1", false},
      {"'ab'", "'a' + 'b'[:]", true},
      {"b'ab'", "'ab'", false},
      {"1j", "complex(0, 1)", true},
      {"None", "None", true},
      {"(1, (2.0, 'x'))", "(1, (2.0, 'x'))", true},
      {"(1, (2.0, 'x'))", "(1, (2, 'x'))", false},
      {"(1,)", "(1, 2)", false},
      {"P(1, 2)", "P(1, 2)", true},
      {"P(1, 2)", "(1, 2)", false},
      {"torch.Size([1, 2])", "torch.Size([1, 2])", true},
      {"slice(1, None)", "slice(1, None)", true},
      {"slice(1, None)", "slice(1, 2)", false},
      {"range(3)", "range(0, 3)", true},
      {"frozenset([1, 'a'])", "frozenset(['a', 1])", true},
      {"frozenset([1, 'a'])", "frozenset(['b', 1])", false},
      {"frozenset([int, E.A, torch.float32, (1, 'x')])",
       "frozenset([E.A, (1, 'x'), int, torch.float32])", true},
      {"frozenset([int, E.A])", "frozenset([int, E.B])", false},
      {"frozenset([1])", "frozenset([True])", false},
      {"frozenset([(1,)])", "frozenset([(True,)])", false},
      {"frozenset([1, 2.5])", "frozenset([2.5, 1])", true},
      {"frozenset([Q()])", "frozenset([Q()])", false},
      {"torch.device('cpu')", "torch.device('cpu')", true},
      {"torch.device('cuda:0')", "torch.device('cuda:1')", false},
      {"torch.float32", "torch.float32", true},
      {"torch.float32", "torch.float64", false},
      {"E.A", "E.A", true},
      {"E.A", "E.B", false},
      {"I(1)", "I(1)", false},
      {"[1]", "[1]", false},
  };
  for (const Pair& pair : pairs) {
    const Ref a = program.eval(pair.a), b = program.eval(pair.b);
    EXPECT_EQ(same_value(a.get(), b.get()), pair.same) << pair.a << " and " << pair.b;
    EXPECT_EQ(same_value(b.get(), a.get()), pair.same) << pair.b << " and " << pair.a;
  }
  EXPECT_FALSE(same_value(nullptr, Py_None));
}

TEST(Value, AtomsHoldNothing) {
  Program program(kValues);
  for (const char* atom : {"1", "None", "'a'", "(1, (2.0,))", "torch.float32", "..."})
    EXPECT_TRUE(is_atom(program.eval(atom).get())) << atom;
  for (const char* other : {"[]", "([],)", "object()", "torch.ones(1)", "I(1)"})
    EXPECT_FALSE(is_atom(program.eval(other).get())) << other;
}

TEST(Value, Text) {
  Program program(kValues);
  program.run("class R:\n  def __repr__(self): raise SystemExit('user code ran')\nr = R()");
  const auto text = [&](const char* value) { return value_text(program.eval(value).get()); };
  EXPECT_EQ(text("(1, 'two', [3.0])"), "(1, 'two', [3.0])");
  EXPECT_EQ(text("r"), "a R object");
  EXPECT_EQ(text("[r, r]"), "a list of 2");
  EXPECT_EQ(text("int"), "class int");
  EXPECT_EQ(text("len"), "function len");
  EXPECT_EQ(text("torch"), "module torch");
  EXPECT_EQ(text("torch.bfloat16"), "torch.bfloat16");
  EXPECT_EQ(text("'x' * 500").size(), 100u);
  EXPECT_EQ(value_text(nullptr), "absent");
}

struct StateChange {
  const char *enter, *leave, *difference;
};

TEST(GlobalState, DifferencesAreNamed) {
  Program program(
      "import torch\nfrom torch.utils._python_dispatch import TorchDispatchMode\n"
      "class M(TorchDispatchMode): pass\n");
  const StateChange changes[] = {
      {"m = torch.no_grad(); m.__enter__()", "m.__exit__(None, None, None)",
       "grad mode: on -> off"},
      {"m = torch.inference_mode(); m.__enter__()", "m.__exit__(None, None, None)",
       "grad mode: on -> off"},
      {"m = torch.autocast('cpu', torch.bfloat16); m.__enter__()", "m.__exit__(None, None, None)",
       "autocast: off -> on"},
      {"torch.set_default_dtype(torch.float64)", "torch.set_default_dtype(torch.float32)",
       "default dtype: Float -> Double"},
      {"torch.use_deterministic_algorithms(True)", "torch.use_deterministic_algorithms(False)",
       "deterministic algorithms: off -> on"},
      {"torch.set_default_device('meta')", "torch.set_default_device(None)",
       "number of torch function modes: 0 -> 1"},
      {"m = M(); m.__enter__()", "m.__exit__(None, None, None)",
       "number of torch dispatch modes: 0 -> 1"},
      {"m = torch._C.DisableTorchFunctionSubclass(); m.__enter__()", "m.__exit__(None, None, None)",
       "__torch_function__ was enabled differently"},
      {"n = torch.get_num_threads(); torch.set_num_threads(n + 1)", "torch.set_num_threads(n)",
       "torch.get_num_threads(): "},
  };
  const GlobalState before = GlobalState::current();
  EXPECT_EQ(before, GlobalState::current());
  EXPECT_EQ(before.difference(before), "");
  for (const StateChange& change : changes) {
    program.run(change.enter);
    const GlobalState now = GlobalState::current();
    EXPECT_FALSE(before == now) << change.enter;
    EXPECT_NE(before.difference(now).find(change.difference), std::string::npos)
        << before.difference(now);
    program.run(change.leave);
    EXPECT_EQ(before, GlobalState::current()) << change.leave;
  }
  // One mode in place of another.
  program.run("torch.set_default_device('meta')");
  const GlobalState meta = GlobalState::current();
  program.run("torch.set_default_device('cpu')");
  EXPECT_NE(meta.difference(GlobalState::current()).find("are others"), std::string::npos);
  program.run("torch.set_default_device(None)");
}

}  // namespace
}  // namespace braze::guard
