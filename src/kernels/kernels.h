// Kernels written by hand and compiled ahead, for what a loop over index expressions is no match
// for: dense products, attention. Results do not depend on the number of threads.
#pragma once

#include <functional>

#include "kernels/jobs.h"
#include "target/isa.h"

namespace braze::kernels {

// Runs its argument once on each of some threads, the caller's among them, and returns when all are
// through.
using OnThreads = std::function<void(int threads, const std::function<void()>&)>;

// The variant for these instructions; null where there is none.
const Variant* variant_for(target::Isa isa);

// Cache blocking after K. Goto and R. van de Geijn, Anatomy of High-Performance Matrix
// Multiplication (ACM TOMS 34, 2008), with two changes that fit weights that are used once per
// call: a panel of b is packed by the thread that uses it, and its successor is fetched meanwhile.
void multiply(const Variant& variant, const Product& product, int threads, const OnThreads& run);

// Whether a product of these sizes may have a transposed a.
bool packs_rows(int64_t rows, int64_t inner);

// Vectors lie along queries: a block of them is a panel with which the rows of the keys, as they
// lie in memory, are multiplied; then softmax needs no sum across a vector. Keys come in blocks,
// after which sums and results are put right by the new maximum: T. Dao et al., FlashAttention
// (NeurIPS 2022), M. Milakov and N. Gimelshein, Online normalizer calculation for softmax (2018).
void attend(const Variant& variant, const Attention& attention, int threads, const OnThreads& run);

// The gradients of query, key and value (attention_gradient.cpp); all that is there is written.
void differentiate(const Variant& variant, const AttentionGradient& gradient, int threads,
                   const OnThreads& run);

}  // namespace braze::kernels
