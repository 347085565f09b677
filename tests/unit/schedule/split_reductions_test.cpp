#include "schedule/split_reductions.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "schedule/kernel_edit.h"

namespace braze::schedule {
namespace {

// A program of one kernel, whose parameters are buffers of these sizes; the first is the input.
loop::Program program_of(const std::string& text, const std::vector<int64_t>& sizes) {
  loop::Program program;
  loop::ScheduledKernel scheduled{loop::parse_kernel(text, program.pool)};
  for (size_t i = 0; i < sizes.size(); ++i) {
    loop::Buffer buffer;
    buffer.kind = i == 0 ? loop::Buffer::Kind::kInput : loop::Buffer::Kind::kComputed;
    buffer.type.dtype = scheduled.kernel.params[i].dtype;
    buffer.type.sizes = {sizes[i]};
    buffer.type.strides = {1};
    scheduled.kernel.params[i].buffer = static_cast<int>(i);
    program.buffers.push_back(buffer);
  }
  for (size_t i = 1; i < sizes.size(); ++i) program.outputs.push_back(static_cast<int>(i));
  program.items.push_back(std::move(scheduled));
  return program;
}

// The contents of all buffers after the program has run on random input.
std::vector<std::vector<float>> run(loop::Program& program) {
  std::mt19937 random(1);
  std::vector<std::vector<float>> memory;
  for (const loop::Buffer& buffer : program.buffers) {
    const int64_t words = std::max<int64_t>(graph::size_of(buffer.type.dtype) / 4, 1);
    memory.emplace_back(buffer.type.numel().constant() * words);
    for (float& value : memory.back()) value = std::uniform_real_distribution<float>(-1, 1)(random);
  }
  for (loop::Item& item : program.items) {
    loop::Kernel& kernel = std::get<loop::ScheduledKernel>(item).kernel;
    renumber(kernel, program.pool);
    loop::verify(kernel);
    std::vector<void*> params;
    for (const loop::BufferParam& param : kernel.params)
      params.push_back(memory[param.buffer].data());
    EXPECT_TRUE(loop::interpret(kernel, params));
  }
  return memory;
}

void check(const std::string& text, const std::vector<int64_t>& sizes, size_t items,
           const target::Target& target = {}) {
  loop::Program whole = program_of(text, sizes), split = program_of(text, sizes);
  split_reductions(split, target::costs_of(target).split);
  EXPECT_EQ(split.items.size(), items) << loop::to_string(split);
  loop::verify(split);
  const auto expected = run(whole), got = run(split);
  for (size_t buffer = 1; buffer < sizes.size(); ++buffer)
    for (size_t i = 0; i < expected[buffer].size(); ++i)
      EXPECT_NEAR(got[buffer][i], expected[buffer][i], 1e-2) << text;
}

TEST(SplitReductions, PartsRestAndLast) {
  check(
      "kernel mean(b0: f32 in, b1: f32 out, b2: f32 out) inner(i0 < 100000) {\n"
      " r0 = sum(load(b0, i0)) inner\n r1 = max(load(b0, i0)) inner\n"
      " store(b1, 0, mul(r0, 0.5:f32))\n store(b2, 0, add(r0, r1))\n}",
      {100000, 1, 1}, 3);
}

// On GPUs: what a part finds is a place in it.
TEST(SplitReductions, Places) {
  const target::Target gpu = target::cuda(90, 132, 3350000);
  const auto extremes = [](const std::string& inner, const std::string& index) {
    return "kernel extremes(b0: f32 in, b1: f32 out, b2: f32 out, b3: f32 out) inner(" + inner +
           ") {\n r0 = argmax(" + index + ") inner\n r1 = argmin(" + index +
           ") inner\n store(b1, 0, f32(r0))\n store(b2, 0, r0.1)\n store(b3, 0, f32(r1))\n}";
  };
  const std::string one = extremes("i0 < 100001", "load(b0, i0)");
  check(one, {100001, 1, 1, 1}, 3, gpu);
  check(one, {100001, 1, 1, 1}, 1);
  // The first of equal ones, which lie in several parts.
  check(extremes("i0 < 131072", "floor(mul(load(b0, i0), 3:f32))"), {131072, 1, 1, 1}, 2, gpu);
  check(extremes("i0 < 20000, i1 < 7", "load(b0, i0*7 + i1)"), {140000, 1, 1, 1}, 2, gpu);
  check(extremes("i0 < 7, i1 < 20000", "load(b0, i0*20000 + i1)"), {140000, 1, 1, 1}, 1, gpu);
  check(
      "kernel columns(b0: f32 in, b1: f32 out) outer(o0 < 64) inner(i0 < 5000) {\n"
      " r0 = argmax(load(b0, i0*64 + o0)) inner\n store(b1, o0, f32(r0))\n}",
      {320000, 64}, 2, gpu);
}

TEST(SplitReductions, NothingIsLeft) {
  check(
      "kernel sum(b0: f32 in, b1: f32 out) inner(i0 < 131072) {\n"
      " r0 = sum(load(b0, i0)) inner\n store(b1, 0, r0)\n}",
      {131072, 1}, 2);
}

TEST(SplitReductions, RowsAndSeveralAxes) {
  check(
      "kernel rows(b0: f32 in, b1: f32 out) outer(o0 < 3, o1 < 5) inner(i0 < 1501, i1 < 7) {\n"
      " r0 = min(load(b0, o0*35 + o1*7 + i0*105 + i1)) inner\n store(b1, o0*5 + o1, r0)\n}",
      {157605, 15}, 3);
}

TEST(SplitReductions, MomentsAreJoined) {
  check(
      "kernel moments(b0: f32 in, b1: f32 out, b2: f32 out) inner(i0 < 100000) {\n"
      " r0 = welford(add(load(b0, i0), 100:f32)) inner\n r1 = sum(load(b0, i0)) inner\n"
      " store(b1, 0, div(r0.1, r0.2))\n store(b2, 0, add(r0, r1))\n}",
      {100000, 1, 1}, 3);
  // Without a rest, by rows, with an axis beside the one that is split.
  check(
      "kernel rows(b0: f32 in, b1: f32 out) outer(o0 < 4) inner(i0 < 32768, i1 < 4) {\n"
      " r0 = welford(load(b0, i0*16 + o0*4 + i1)) inner\n store(b1, o0, r0.1)\n}",
      {524288, 4}, 2);
}

// Each part stores its own.
TEST(SplitReductions, WhatIsStoredInTheWalk) {
  check(
      "kernel k(b0: f32 in, b1: f32 out, b2: f32 out) inner(i0 < 200000) {\n"
      " store(b1, i0, mul(load(b0, i0), 0.5:f32)) inner\n"
      " r0 = sum(mul(load(b0, i0), 0.5:f32)) inner\n store(b2, 0, r0)\n}",
      {200000, 200000, 1}, 3);
}

TEST(SplitReductions, OnlyLongOnesOfOneSweep) {
  check(
      "kernel few(b0: f32 in, b1: f32 out) inner(i0 < 1000) {\n"
      " r0 = sum(load(b0, i0)) inner\n store(b1, 0, r0)\n}",
      {1000, 1}, 1);
  check(
      "kernel softmax(b0: f32 in, b1: f32 out) inner(i0 < 100000) {\n"
      " r0 = max(load(b0, i0)) inner\n r1 = sum(exp(sub(load(b0, i0), r0))) inner\n"
      " store(b1, 0, r1)\n}",
      {100000, 1}, 1);
}

}  // namespace
}  // namespace braze::schedule
