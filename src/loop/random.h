// Random numbers of a tensor's elements: which word of which counter is whose.
//
// The elements of a tensor take the words of a stream (a key and an offset) in blocks of 64: those
// of a block share 16 counters, and the elements that take the same word of them lie side by side.
//
//   element 64*b + 16*w + c  takes word w of the counter (offset, 16*b + c)
//
// So a vector of neighbouring elements is one word of neighbouring counters, and the four words of
// a counter are all used, while what an element gets follows from its number alone.
#pragma once

#include "loop/expr.h"

namespace braze::loop {

// The word of an element (an i64, not negative) of a stream, as a kRandom.
ExprRef random_word(ExprPool& pool, ExprRef key, ExprRef offset, ExprRef element);

// The element of a kRandom that random_word has made; null: it is another, or the element is a
// number.
ExprRef element_of_random(ExprRef random);

// How PyTorch's dropout draws on a GPU (passes/dropout_masks.h): a thread takes `pack` elements
// side by side, of as many words of counters that follow each other, then those `threads * pack`
// further on. Its subsequence is its number.
struct MaskDraw {
  int64_t first;    // counters that draws before it take of the same state
  int64_t threads;  // in all
  int64_t pack;     // 4 or 8
  bool one_round;   // no thread takes more than one pack
};

// The word of an element (an i64 from 0 to 2^31 - 1), of the generator's seed and offset, as a
// kRandom.
ExprRef mask_word(ExprPool& pool, ExprRef seed, ExprRef offset, ExprRef element,
                  const MaskDraw& draw);

// The element of a kRandom that mask_word has made; null: it is another, or the element is a
// number.
ExprRef element_of_mask(ExprRef random);

}  // namespace braze::loop
