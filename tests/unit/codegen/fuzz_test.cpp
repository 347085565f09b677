// Random kernels against the interpreter. A failure prints the kernel and its seed.
#include "codegen/random_kernels.h"
#include "codegen/run_kernels.h"

namespace braze::codegen::cpp {
namespace {

void fuzz(const std::vector<int64_t>& hints, const Values& values, unsigned rounds_wanted,
          int kernels) {
  const char* wanted = std::getenv("BRAZE_FUZZ_SEED");
  const unsigned first = wanted ? std::strtoul(wanted, nullptr, 10) : 1;
  const char* rounds = std::getenv("BRAZE_FUZZ_ROUNDS");
  const unsigned last = first + (rounds ? std::strtoul(rounds, nullptr, 10) : rounds_wanted);
  for (unsigned seed = first; seed < last; ++seed) {
    SCOPED_TRACE("BRAZE_FUZZ_SEED=" + std::to_string(seed));
    RandomKernels generator(seed, values);
    std::vector<std::string> texts;
    for (int i = 0; i < kernels; ++i) texts.push_back(generator.kernel());
    check_kernels(texts, {.elements = 1 << 14, .tolerance = 1e-3, .magnitude = 100, .seed = seed},
                  hints, values);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Fuzz, RandomKernels) { fuzz({}, {{}}, exhaustive() ? 2 : 1, exhaustive() ? 12 : 6); }

TEST(Fuzz, RandomKernelsOfSymbolicSizes) {
  const Values values = {{2, 3}, {7, 16}, {16, 7}, {17, 8}, {3, 64}, {65, 2}, {40, 5}};
  fuzz({16, 7}, values, 1, exhaustive() ? 12 : 4);
  fuzz({3, 64}, values, 1, exhaustive() ? 12 : 4);
}

}  // namespace
}  // namespace braze::codegen::cpp
