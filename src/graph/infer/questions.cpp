#include "graph/infer/questions.h"

namespace braze::graph {
namespace {

using sym::Int;

class TracedSizes final : public SizeQuestions {
  bool are_equal(Int, Int) override { return false; }
  bool is_less(Int a, Int b) override { return a.hint() < b.hint(); }
  bool must_be_equal(Int, Int) override { return true; }
  bool must_be_at_most(Int, Int) override { return true; }
  bool asserts_equal(Int, Int) override { return true; }
  bool asserts_at_least(Int, int64_t) override { return true; }
  bool is_surely_equal(Int, Int) override { return false; }
  bool is_less_for_most_sizes(Int a, Int b) override { return a.hint() < b.hint(); }
  int64_t fixed(Int a) override { return a.hint(); }
  bool comes_from_data(Int) override { return false; }
  Int span_of(Int size) override { return sym::max(size, 1); }
};

}  // namespace

bool SizeQuestions::all_equal(std::span<const Int> a, std::span<const Int> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i])) return false;
  return true;
}

bool SizeQuestions::all_fit(std::span<const Int> a, std::span<const Int> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!fit(a[i], b[i])) return false;
  return true;
}

SizeQuestions& traced_sizes() {
  static TracedSizes& questions = *new TracedSizes;
  return questions;
}

}  // namespace braze::graph
