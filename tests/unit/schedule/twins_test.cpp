#include "schedule/twins.h"

#include "schedule/programs.h"

namespace braze::schedule {
namespace {

using Kind = loop::Buffer::Kind;

// x: input; t: computed; y: output; z: output that a second kernel computes.
struct Program {
  loop::Program program;
  explicit Program(const std::string& stores, const std::string& reads = kReads,
                   const std::vector<int>& read = {1, 3}) {
    for (const Kind kind : {Kind::kInput, Kind::kComputed, Kind::kComputed, Kind::kComputed}) {
      loop::Buffer buffer{.kind = kind};
      buffer.type.sizes = {sym::Int(8)};
      buffer.type.strides = {sym::Int(1)};
      if (kind == Kind::kInput) buffer.input = 0;
      program.buffers.push_back(buffer);
    }
    add("kernel stores(b0: f32 in, b1: f32 out, b2: f32 out) outer(o0 < 8) {\n" + stores + "\n}",
        {0, 1, 2});
    add(reads, read);
    program.outputs = {2, 3};
  }
  void add(const std::string& text, const std::vector<int>& buffers) {
    loop::Kernel kernel = loop::parse_kernel(text, program.pool);
    for (size_t i = 0; i < buffers.size(); ++i) kernel.params[i].buffer = buffers[i];
    program.items.emplace_back(loop::ScheduledKernel{kernel});
  }
  const loop::Kernel& kernel(int item) const {
    return std::get<loop::ScheduledKernel>(program.items[item]).kernel;
  }
  // What the first kernel stores, and what the second one reads.
  std::pair<size_t, int> after() {
    store_once(program, Aliases(program));
    loop::verify(program);
    return {kernel(0).body.size(), kernel(1).params[0].buffer};
  }

  static constexpr const char* kReads =
      "kernel reads(b0: f32 in, b1: f32 out) outer(o0 < 8) {\n store(b1, o0, neg(load(b0, o0)))\n}";
};

const std::string kSame = " t0 = add(load(b0, o0), 1:f32)\n store(b1, o0, t0)\n store(b2, o0, t0)";

TEST(StoreOnce, AReaderReadsTheOther) {
  EXPECT_EQ(Program(kSame).after(), (std::pair<size_t, int>{1, 2}));
}

TEST(StoreOnce, AReaderOfBothReadsOneOfThem) {
  Program both(kSame,
               "kernel reads(b0: f32 in, b1: f32 in, b2: f32 out) outer(o0 < 8) {\n"
               " store(b2, o0, mul(load(b0, o0), load(b1, o0*-1 + 7)))\n}",
               {1, 2, 3});
  EXPECT_EQ(both.after(), (std::pair<size_t, int>{1, 2}));
}

TEST(StoreOnce, OtherValuesAndPlacesStay) {
  const auto stays = [](const std::string& stores) {
    EXPECT_EQ(Program(stores).after(), (std::pair<size_t, int>{2, 1})) << stores;
  };
  stays(" store(b1, o0, load(b0, o0))\n store(b2, o0, neg(load(b0, o0)))");
  stays(" store(b1, o0, load(b0, o0))\n store(b2, o0*-1 + 7, load(b0, o0))");
}

TEST(StoreOnce, WhatIsHandedOutOrStoredToAgainStays) {
  Program outputs(kSame);
  outputs.program.outputs = {1, 2, 3};
  EXPECT_EQ(outputs.after(), (std::pair<size_t, int>{2, 1}));
  Program again(kSame);
  again.add(
      "kernel again(b0: f32 in, b1: f32 out) outer(o0 < 8) {\n store(b1, o0, load(b0, o0))\n}",
      {0, 2});
  EXPECT_EQ(again.after(), (std::pair<size_t, int>{2, 1}));
}

TEST(StoreOnce, OtherTypesStay) {
  Program strided(kSame);
  strided.program.buffers[1].type.sizes = {sym::Int(2), sym::Int(4)};
  strided.program.buffers[1].type.strides = {sym::Int(4), sym::Int(1)};
  EXPECT_EQ(strided.after(), (std::pair<size_t, int>{2, 1}));
}

}  // namespace
}  // namespace braze::schedule
