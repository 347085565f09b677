// A kernel of rows and one of columns in one launch.
#include "codegen/cuda_kernels.h"

namespace braze::codegen::cuda {
namespace {

// Of f16[rows, columns], whose rows are made of length 1 and whose columns are added up in parts.
struct RowsAndColumns {
  int64_t rows, columns, parts;

  std::string normalized() const {
    const std::string c = number(columns), x = "f32(load(b0, o0*" + c + " + i0))";
    return "kernel rows(b0: f16 in, b1: f16 out) outer(o0 < " + number(rows) + ") inner(i0 < " + c +
           ") {\n r0 = sum(mul(" + x + ", " + x + ")) inner\n store(b1, o0*" + c +
           " + i0, f16(mul(" + x + ", rsqrt(r0)))) inner\n}";
  }
  std::string sums() const {
    const std::string c = number(columns), length = number(rows / parts);
    return "kernel columns(b0: f16 in, b1: f32 in, b2: f32 out) outer(o0 < " + number(parts) +
           ", o1 < " + c + ") inner(i0 < " + length + ") {\n r0 = sum(mul(f32(load(b0, o0*" +
           number(rows / parts * columns) + " + o1 + i0*" + c + ")), load(b1, o0*" + length +
           " + i0))) inner\n store(b2, o0*" + c + " + o1, r0)\n}";
  }
};

void check_beside(const RowsAndColumns& sizes, const target::Cuda& gpu) {
  sym::ExprArena arena;
  loop::ExprPool pool;
  const std::vector<loop::Kernel> kernels =
      parse_kernels({sizes.normalized(), sizes.sums()}, pool, arena);
  ASSERT_TRUE(share_launch(kernels[0], kernels[1], gpu)) << sizes.rows << "x" << sizes.columns;
  const KernelCode code = generate_beside(kernels[0], kernels[1], gpu);
  loop::Kernel all = kernels[0];
  all.params.insert(all.params.end(), kernels[1].params.begin(), kernels[1].params.end());
  EXPECT_EQ(code.alignment.size(), all.params.size());
  check_launch(
      all, code,
      [&](Buffers& want) {
        ASSERT_TRUE(
            loop::interpret(kernels[0], std::vector<void*>{want[0].data(), want[1].data()}));
        ASSERT_TRUE(loop::interpret(
            kernels[1], std::vector<void*>{want[2].data(), want[3].data(), want[4].data()}));
      },
      sizes.rows * sizes.columns);
}

TEST(CudaEmulated, RowsAndColumnsInOneLaunch) {
  const target::Cuda small = small_gpu();
  check_beside({16, 2048, 4}, small);  // a block for each row
  check_beside({20, 2048, 3}, small);  // parts that leave a rest
  check_beside({32, 256, 2}, small);   // several rows in a block
  check_beside({14, 1536, 7}, small);  // two rows in a part
  check_beside({80, 520, 10}, small);  // columns that fill no whole blocks
}

TEST(CudaBeside, ColumnsWithoutPacksHaveTheirOwnLaunch) {
  const target::Cuda small = small_gpu();
  sym::ExprArena arena;
  loop::ExprPool pool;
  const RowsAndColumns odd{64, 2047, 8}, even{64, 2048, 8};
  const std::vector<loop::Kernel> kernels =
      parse_kernels({odd.normalized(), odd.sums(), even.normalized(), even.sums()}, pool, arena);
  EXPECT_FALSE(share_launch(kernels[0], kernels[1], small));
  EXPECT_TRUE(share_launch(kernels[2], kernels[3], small));
  EXPECT_FALSE(share_launch(kernels[3], kernels[2], small));
}

}  // namespace
}  // namespace braze::codegen::cuda
