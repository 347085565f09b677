// Random numbers in generated kernels: Philox 4x32-10 (base/philox.h) for single words, and by
// blocks of neighbouring elements (loop/random.h).
#pragma once

#include <string_view>

namespace braze::codegen::cpp {

// random_word(key, offset, subsequence, word) of scalars.
std::string_view random_word_text();
// random_lanes<V>(...) of vectors of i64.
std::string_view random_lanes_text();
// RandomRun, which keeps the words of two neighbouring blocks of one stream, and random_run<V>(run,
// key, offset, element): the words of `element` and those behind it.
std::string_view random_run_text();

}  // namespace braze::codegen::cpp
