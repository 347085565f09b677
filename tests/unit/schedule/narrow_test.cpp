#include "schedule/narrow.h"

#include "schedule/programs.h"

namespace braze::schedule {
namespace {

using graph::DType;

// x: f32 input, t: f32 computed, y and z: outputs; one kernel stores t, another reads it.
struct Handed {
  loop::Program program;
  Handed(const std::string& stores, const std::string& reads) {
    for (auto [kind, dtype] : {std::pair{loop::Buffer::Kind::kInput, DType::kFloat32},
                               {loop::Buffer::Kind::kComputed, DType::kFloat32},
                               {loop::Buffer::Kind::kComputed, DType::kFloat32},
                               {loop::Buffer::Kind::kComputed, DType::kBFloat16}}) {
      loop::Buffer buffer{.kind = kind};
      buffer.type.dtype = dtype;
      buffer.type.sizes = {sym::Int(8)};
      buffer.type.strides = {sym::Int(1)};
      if (kind == loop::Buffer::Kind::kInput) buffer.input = 0;
      program.buffers.push_back(buffer);
    }
    add("kernel stores(b0: f32 in, b1: f32 out) outer(o0 < 8) {\n" + stores + "\n}", {0, 1});
    add("kernel reads(b0: f32 in, b1: f32 out, b2: bf16 out) outer(o0 < 8) {\n" + reads + "\n}",
        {1, 2, 3});
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
  DType narrowed() {
    narrow_stores(program, Aliases(program));
    loop::verify(program);
    EXPECT_EQ(kernel(0).params[1].dtype, program.buffers[1].type.dtype);
    EXPECT_EQ(kernel(1).params[0].dtype, program.buffers[1].type.dtype);
    return program.buffers[1].type.dtype;
  }
};

constexpr const char* kStores = " store(b1, o0, add(load(b0, o0), 1:f32))";

TEST(NarrowStores, WhatAllLoadsRound) {
  Handed handed(kStores,
                " store(b1, o0, mul(f32(bf16(load(b0, o0))), 2:f32))\n"
                " store(b2, o0, bf16(load(b0, o0)))");
  EXPECT_EQ(handed.narrowed(), DType::kBFloat16);
  EXPECT_EQ(loop::to_string(handed.kernel(0), false),
            loop::to_string(
                loop::parse_kernel("kernel k(b0: f32 in, b1: bf16 out) outer(o0 < 8) {\n store(b1, "
                                   "o0, bf16(add(load(b0, o0), 1:f32)))\n}",
                                   handed.program.pool),
                false));
}

TEST(NarrowStores, WhereAnIndexIsReadFromIt) {
  const std::string place = "i64(f32(bf16(load(b0, o0))))";
  Handed handed(kStores,
                " store(b1, " + place + ", 2:f32)\n store(b2, o0, bf16(load(b0, " + place + ")))");
  EXPECT_EQ(handed.narrowed(), DType::kBFloat16);
}

TEST(NarrowStores, NotWhatIsReadAsItIs) {
  for (const char* reads : {
           // one load that is not rounded
           " store(b1, o0, load(b0, o0))\n store(b2, o0, bf16(load(b0, o0)))",
           " store(b1, o0, mul(load(b0, o0), 2:f32))\n store(b2, o0, bf16(load(b0, o0)))",
           // one that is rounded to something else
           " store(b1, o0, f32(f16(load(b0, o0))))\n store(b2, o0, bf16(load(b0, o0)))",
           // no narrower float
           " store(b1, o0, f32(f64(load(b0, o0))))\n store(b2, o0, bf16(f64(load(b0, o0))))",
           " store(b1, o0, f32(i32(load(b0, o0))))\n store(b2, o0, bf16(i32(load(b0, o0))))",
       })
    EXPECT_EQ(Handed(kStores, reads).narrowed(), DType::kFloat32) << reads;
}

TEST(NarrowStores, NotOutputs) {
  Handed handed(kStores,
                " store(b1, o0, 2:f32)\n"
                " store(b2, o0, bf16(load(b0, o0)))");
  handed.program.outputs.push_back(1);
  EXPECT_EQ(handed.narrowed(), DType::kFloat32);
}

TEST(NarrowStores, NotWhatAccumulates) {
  Handed handed(kStores,
                " store(b1, o0, 2:f32)\n"
                " store(b2, o0, bf16(load(b0, o0)))");
  handed.add(
      "kernel adds(b0: f32 in, b1: f32 out) outer(o0 < 8) {\n store_add(b1, o0, load(b0, o0))\n}",
      {0, 1});
  std::swap(handed.program.items[1], handed.program.items[2]);
  narrow_stores(handed.program, Aliases(handed.program));
  EXPECT_EQ(handed.program.buffers[1].type.dtype, DType::kFloat32);
}

// A view that an extern call gives, and one of the lowering's, have the dtype of their memory.
TEST(NarrowStores, NotViewsOfOthersMemory) {
  for (const auto kind : {loop::Buffer::Kind::kExtern, loop::Buffer::Kind::kView}) {
    Handed handed(kStores,
                  " store(b1, o0, 2:f32)\n"
                  " store(b2, o0, bf16(load(b0, o0)))");
    loop::Program& program = handed.program;
    loop::Buffer view = program.buffers[1];
    view.kind = kind;
    if (kind == loop::Buffer::Kind::kView) {
      view.base = 1;
    } else {
      loop::ExternCall call{.op = "aten.view", .effects = {.results_alias = {0}}};
      call.args = {1};
      call.results = {4};
      program.items.insert(program.items.begin() + 1, call);
    }
    program.buffers.push_back(view);
    auto& reads = std::get<loop::ScheduledKernel>(program.items.back()).kernel;
    reads.params[0].buffer = 4;
    narrow_stores(program, Aliases(program));
    loop::verify(program);
    for (const int buffer : {1, 4})
      EXPECT_EQ(program.buffers[buffer].type.dtype, DType::kFloat32) << loop::to_string(program);
    EXPECT_EQ(reads.params[0].dtype, DType::kFloat32);
  }
}

}  // namespace
}  // namespace braze::schedule
