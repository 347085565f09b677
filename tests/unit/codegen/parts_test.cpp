// Sums over rows, in parts, beside what a kernel does with each row.
#include "codegen/cuda/nest.h"
#include "codegen/cuda_kernels.h"

namespace braze::codegen::cuda {
namespace {

// The gradients of a layer norm's input, weight and bias, with the numbers of each row in b3, b4.
std::string norm_backward(const std::string& type, int64_t rows, int64_t columns, int64_t parts,
                          bool sums = true) {
  const bool half = type == "f16";
  const auto at = [&](int buffer) {
    const std::string load = "load(b" + number(buffer) + ", o0*" + number(columns) + " + i0)";
    return half ? "f32(" + load + ")" : load;
  };
  const std::string scaled = "mul(" + at(0) + ", load(b2, i0))";
  const std::string normed = "mul(sub(" + at(1) + ", load(b3, o0)), load(b4, o0))";
  const std::string n = number(columns) + ":f32";
  const std::string y =
      sums ? "sub(" + scaled + ", add(div(r0, " + n + "), mul(" + normed + ", div(r1, " + n + "))))"
           : "add(" + scaled + ", " + normed + ")";
  std::string text = "kernel norm(b0: " + type + " in, b1: " + type +
                     " in, b2: f32 in, b3: f32 in, b4: f32 in, b5: " + type +
                     " out, b6: f32 out, b7: f32 out) outer(o0 < " + number(rows) +
                     ") inner(i0 < " + number(columns) + ") {\n";
  const std::string of_parts = " inner parts " + number(parts) + "\n";
  text += " store_part(b6, i0, mul(" + at(0) + ", " + normed + "))" + of_parts;
  text += " store_part(b7, i0, " + at(0) + ")" + of_parts;
  if (sums)
    text +=
        " r0 = sum(" + scaled + ") inner\n r1 = sum(mul(" + scaled + ", " + normed + ")) inner\n";
  return text + " store(b5, o0*" + number(columns) + " + i0, " + (half ? "f16(" + y + ")" : y) +
         ") inner\n}";
}

// The parts have together what those of the interpreter have.
void check_parts(const std::string& text, int64_t columns, int64_t parts) {
  sym::ExprArena arena;
  loop::ExprPool pool;
  const loop::Kernel kernel = parse_kernels({text}, pool, arena)[0];
  const target::Cuda gpu = small_gpu();
  EXPECT_EQ(plan_nest(kernel, gpu).parts, parts);
  const int64_t elements = std::max(kernel.outer[0].extent.constant(), parts) * columns;
  const auto add_up = [&](Buffers& buffers) {
    for (const loop::Statement& s : kernel.body) {
      if (!s.is_part()) continue;
      auto* const sums = reinterpret_cast<float*>(buffers[s.buffer].data());
      for (int64_t i = columns; i < parts * columns; ++i) {
        sums[i % columns] += sums[i];
        sums[i] = 0;
      }
    }
  };
  check_launch(
      kernel, generate(kernel, gpu),
      [&](Buffers& want) {
        std::vector<void*> params;
        for (auto& buffer : want) params.push_back(buffer.data());
        ASSERT_TRUE(loop::interpret(kernel, params));
      },
      elements, add_up);
}

TEST(CudaEmulated, SumsOverRowsInParts) {
  check_parts(norm_backward("f16", 37, 64, 3), 64, 3);      // 64 rows in a block
  check_parts(norm_backward("f16", 50, 512, 2), 512, 2);    // a warp for each row
  check_parts(norm_backward("f16", 21, 1024, 4), 1024, 4);  // a block for each row
  check_parts(norm_backward("f16", 5, 8192, 2), 8192, 2);
  check_parts(norm_backward("f32", 9, 1000, 4), 1000, 4);  // the last packs are some threads'
  check_parts(norm_backward("f32", 11, 333, 3), 333, 3);   // an element at a time
  check_parts(norm_backward("f16", 3, 8191, 2), 8191, 2);
  check_parts(norm_backward("f16", 2, 768, 5), 768, 5);  // parts that no row is added to
}

TEST(CudaEmulated, SumsOverRowsBesidePoints) {
  check_parts(norm_backward("f16", 21, 768, 4, false), 768, 4);
  check_parts(norm_backward("f32", 40, 48, 3, false), 48, 3);
}

// One reduction alone, whose shared memory each row writes anew.
TEST(CudaEmulated, SumsOverRowsBesideOneReduction) {
  const std::string x = "load(b0, o0*2048 + i0)";
  check_parts(
      "kernel norm(b0: f32 in, b1: f32 out, b2: f32 out) outer(o0 < 17) inner(i0 < 2048) {\n"
      " r0 = sum(mul(" +
          x + ", " + x +
          ")) inner\n"
          " store(b1, o0*2048 + i0, mul(" +
          x +
          ", rsqrt(r0))) inner\n"
          " store_part(b2, i0, mul(" +
          x + ", rsqrt(r0))) inner parts 3\n}",
      2048, 3);
}

TEST(CudaEmulated, SumsOverRowsBesideASoftmax) {
  const std::string x = "load(b0, o0*640 + i0)";
  check_parts(
      "kernel softmax(b0: f32 in, b1: f32 out, b2: f32 out) outer(o0 < 19) inner(i0 < 640) {\n"
      " r0 = max(" +
          x + ") inner\n t0 = exp(sub(" + x +
          ", r0))\n r1 = sum(t0) inner\n"
          " store(b1, o0*640 + i0, div(t0, r1)) inner\n"
          " store_part(b2, i0, div(t0, r1)) inner parts 4\n}",
      640, 4);
}

}  // namespace
}  // namespace braze::codegen::cuda
