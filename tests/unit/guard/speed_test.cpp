// Checks stay in the microseconds. Limits are wide: machines that run tests are busy.
#include <gtest/gtest.h>

#include <string>

#include "cpython/python.h"
#include "guard_module.h"

namespace braze::guard::testing {
namespace {

using cpython::testing::Program;
using cpython::testing::repr;

double seconds(Program& program, const char* expression) {
  const cpython::Ref value = program.eval(expression);
  return value ? PyFloat_AsDouble(value.get()) : -1;
}

TEST(Speed, UnchangedModel) {
  Program program(kPrelude);
  program.run(R"(
def f(model, x): pass
class Block(nn.Module):
    def __init__(self): super().__init__(); self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
model = nn.Sequential(*[Block() for _ in range(50)])
x = torch.ones(2)
c = Capture(f, model, x); c.module(c.arg(0)); c.arg(1).tensor(); c.build()
guards = len(c.describe())
)");
  const double time = seconds(program, "gs.time_check(c.raw, (model, x), 3000)");
  const double after_change = seconds(
      program, "[setattr(model[3].a, 'unread', 1), gs.time_check(c.raw, (model, x), 1)][1]");
  const double other_model =
      seconds(program, "gs.time_check(c.raw, (__import__('copy').deepcopy(model), x), 1)");
  printf(
      "%s guards, 151 modules, 200 parameters: %.0f ns; after a change %.0f ns; other model %.0f "
      "ns\n",
      repr(program.eval("guards")).c_str(), time * 1e9, after_change * 1e9, other_model * 1e9);
  EXPECT_GT(time, 0);
  EXPECT_LT(time, 20e-6);
  EXPECT_GT(after_change, 0);
  EXPECT_GT(other_model, 0);
}

TEST(Speed, SmallFunction) {
  Program program(kPrelude);
  program.run(R"(
def f(x, flag): return torch.relu(x)
x = torch.ones(2)
c = Capture(f, x, True); c.arg(0).tensor(); c.arg(1).same()
c.fn().code().is_(); c.fn().glob('torch').is_(); c.pinned(torch).attr('relu').is_(); c.build()
)");
  const double time = seconds(program, "gs.time_check(c.raw, (x, True), 3000)");
  const double loaded = seconds(program, "gs.time_check(c.raw, (x, True), 1)");
  printf("a tensor, a flag, a global: %.0f ns (once: %.0f)\n", time * 1e9, loaded * 1e9);
  EXPECT_GT(time, 0);
  EXPECT_LT(time, 2e-6);
}

TEST(Speed, GlobalState) {
  Program program(kPrelude);
  const double time = seconds(program, "gs.time_state()");
  printf("GlobalState::current: %.1f ns\n", time * 1e9);
  EXPECT_LT(time, 300e-9);
}

}  // namespace
}  // namespace braze::guard::testing
