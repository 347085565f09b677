// Generators come to a driver each time that they are resumed, and are generators all the same.
#include "cpython/resumable.h"

#include <memory>

#include "cpython/live_frame.h"
#include "python.h"

namespace braze::cpython {
namespace {

using testing::code_of;
using testing::Program;
using testing::repr;

struct Driven {
  int resumptions = 0;
  int keep_from = 1000;  // from then on CPython keeps the generator
};

// CPython carries out everything up to the next yield.
PyObject* drive_steps(void* context, PyThreadState* thread, FrameView view,
                      const Suspension& suspension) {
  auto* driven = static_cast<Driven*>(context);
  LiveFrame frame(thread, view, &suspension);
  if (++driven->resumptions >= driven->keep_from) return frame.leave_to_cpython();
  return frame.finish();
}

constexpr char kSource[] = R"(
def steps(n):
    got = []
    try:
        for k in range(n):
            got.append((yield k))
    except ValueError as error:
        yield repr(error)
    return got

def delegating(n):
    got = yield from steps(n)
    yield 'end', got

def use(made):
    out = [next(made), made.send('a'), next(made)]
    try:
        while True:
            out.append(next(made))
    except StopIteration as stop:
        return out, stop.value
)";

class ResumableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Resumable::is_possible())
      GTEST_SKIP() << "generators are not driven on this CPython; 3.11 and 3.12 lift it";
    code = code_of(program.get("steps"));
    resumable = std::make_unique<Resumable>(code, drive_steps, driven);
  }
  // `steps(n)`, taken over, is `made`.
  void make(const char* expression) {
    const Ref made = program.eval(expression);
    resumable->take_over(made.get());
    program.set("made", made.get());
  }

  Program program{kSource};
  std::shared_ptr<Driven> driven = std::make_shared<Driven>();
  PyCodeObject* code = nullptr;
  std::unique_ptr<Resumable> resumable;
};

TEST_F(ResumableTest, EachResumptionComesToTheDriver) {
  make("steps(5)");
  EXPECT_EQ(repr(program.eval("use(made)").get()), repr(program.eval("use(steps(5))").get()));
  EXPECT_EQ(driven->resumptions, 6);
}

TEST_F(ResumableTest, WaitsInACopyOfItsCode) {
  make("steps(2)");
  const Ref waits_in = program.eval("made.gi_frame.f_code");
  EXPECT_TRUE(comes_to_driver(reinterpret_cast<PyCodeObject*>(waits_in.get())));
  program.run("line = made.gi_frame.f_lineno; next(made)");
  EXPECT_TRUE(program.holds("made.gi_frame.f_lineno == line + 4"));
  EXPECT_FALSE(comes_to_driver(code));
}

TEST_F(ResumableTest, CPythonKeepsIt) {
  driven->keep_from = 3;
  make("steps(6)");
  EXPECT_EQ(repr(program.eval("use(made)").get()), repr(program.eval("use(steps(6))").get()));
  EXPECT_EQ(driven->resumptions, 3);
}

TEST_F(ResumableTest, DelegatesAreResumedThrough) {
  resumable = std::make_unique<Resumable>(code_of(program.get("delegating")), drive_steps, driven);
  make("delegating(4)");
  EXPECT_EQ(repr(program.eval("use(made)").get()), repr(program.eval("use(delegating(4))").get()));
  EXPECT_EQ(driven->resumptions, 6);
}

TEST_F(ResumableTest, WhatIsThrownFindsItsHandler) {
  make("steps(4)");
  EXPECT_TRUE(program.holds("(next(made), made.throw(ValueError(1))) == (0, 'ValueError(1)')"));
  EXPECT_TRUE(program.holds("list(made) == []"));
}

TEST_F(ResumableTest, OthersAreLeftAlone) {
  make("delegating(1)");
  EXPECT_TRUE(program.holds("list(made) == [0, ('end', [None])]"));
  make("steps(1)");
  program.run("next(made)");
  const Ref made = program.eval("made");
  resumable->take_over(made.get());
  EXPECT_EQ(driven->resumptions, 1);
}

}  // namespace
}  // namespace braze::cpython
