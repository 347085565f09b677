#include "schedule/column_sums.h"

#include "schedule/programs.h"

namespace braze::schedule {
namespace {

using loop::ReduceOp;

constexpr int64_t kSummedRows = 24, kSummedColumns = 16;
const Shape kSummedMatrix{kSummedRows, kSummedColumns};

// Small enough for what the interpreter runs.
const target::PartCosts kSumCosts{.processors = 1,
                                  .least_bytes = 256,
                                  .most_sums = 64,
                                  .many_sums = 1000,
                                  .many_packs = 1000,
                                  .bytes_per_byte_of_parts = 1};

const target::Target kSummingGpu = target::cuda(90, 132, 3350000);

// Rows that are multiplied with the sum of their products.
int rows_of(ProgramBuilder& b, int x, int dy) {
  auto k = b.draft("rows", {kSummedRows}, {kSummedColumns});
  const ExprRef product = b.pool().mul(k.load(x, k.all_axes()), k.load(dy, k.all_axes()));
  const ExprRef sum = k.reduce(ReduceOp::kSum, product);
  const int result = b.buffer(loop::Buffer::Kind::kComputed, kSummedMatrix);
  k.store(result, k.all_axes(), b.pool().mul(product, sum), true);
  k.finish();
  return result;
}

// The sums of columns of x * dy and of dy, of which the first is doubled.
std::pair<int, int> columns_of(ProgramBuilder& b, int x, int dy) {
  auto k = b.draft("columns", {kSummedColumns}, {kSummedRows});
  const std::vector<ExprRef> at{k.axis(1), k.axis(0)};
  const ExprRef y = k.load(dy, at);
  const ExprRef weight = k.reduce(ReduceOp::kSum, b.pool().mul(k.load(x, at), y));
  const ExprRef bias = k.reduce(ReduceOp::kSum, y);
  const int of_weight = b.buffer(loop::Buffer::Kind::kComputed, {kSummedColumns});
  const int of_bias = b.buffer(loop::Buffer::Kind::kComputed, {kSummedColumns});
  k.store(of_weight, k.outer_axes(), b.pool().add(weight, weight), false);
  k.store(of_bias, k.outer_axes(), bias, false);
  k.finish();
  return {of_weight, of_bias};
}

int parts_in(const loop::Program& program) {
  const std::vector<bool> parts = holding_parts(program);
  return static_cast<int>(std::ranges::count(parts, true));
}

void sum_and_compare(loop::Program& program, int parts,
                     const target::PartCosts& costs = kSumCosts) {
  compare(program, kSummingGpu, 1, [&] {
    const Aliases aliases(program);
    sum_columns_beside_rows(program, aliases, {}, costs);
  });
  EXPECT_EQ(parts_in(program), parts) << loop::to_string(program);
}

TEST(ColumnSums, AreMadeByTheKernelOfRows) {
  for (const bool columns_first : {false, true}) {
    ProgramBuilder b;
    const int x = b.input(kSummedMatrix), dy = b.input(kSummedMatrix);
    if (columns_first) {
      const auto [weight, bias] = columns_of(b, x, dy);
      b.program.outputs = {weight, bias, rows_of(b, x, dy)};
    } else {
      const int rows = rows_of(b, x, dy);
      const auto [weight, bias] = columns_of(b, x, dy);
      b.program.outputs = {weight, bias, rows};
    }
    sum_and_compare(b.program, 2);
    ASSERT_EQ(kernel_count(b.program), 2);
    const auto& merged = std::get<loop::ScheduledKernel>(b.program.items[0]).kernel;
    // In the walk that loads what is summed.
    EXPECT_TRUE(merged.body[0].is_part() && merged.body[1].is_part());
    EXPECT_EQ(merged.body[0].parts, 4);
  }
}

// They stand in one walk with what needs the same, behind what is stored once for a row.
TEST(ColumnSums, ShareTheWalkThatTheyBelongTo) {
  ProgramBuilder b;
  const int x = b.input(kSummedMatrix), dy = b.input(kSummedMatrix);
  auto k = b.draft("rows", {kSummedRows}, {kSummedColumns});
  const ExprRef first = k.reduce(ReduceOp::kSum, k.load(x, k.all_axes()));
  const ExprRef scaled = b.pool().mul(k.load(dy, k.all_axes()), first);
  const int numbers = b.buffer(loop::Buffer::Kind::kComputed, {kSummedRows});
  const int result = b.buffer(loop::Buffer::Kind::kComputed, kSummedMatrix);
  k.store(numbers, k.outer_axes(), first, false);
  k.store(result, k.all_axes(), scaled, true);
  k.finish();
  const auto [weight, bias] = columns_of(b, result, dy);
  b.program.outputs = {numbers, result, weight, bias};
  sum_and_compare(b.program, 2);
  const auto& merged = std::get<loop::ScheduledKernel>(b.program.items[0]).kernel;
  ASSERT_EQ(merged.body.size(), 5u);
  EXPECT_TRUE(merged.body[0].is_part());  // of dy alone
  EXPECT_TRUE(merged.body[1].is_reduction());
  EXPECT_FALSE(merged.body[2].inner);
  EXPECT_TRUE(merged.body[3].is_part() && merged.body[4].overwrites());
}

// A pointwise kernel goes through the rows then.
TEST(ColumnSums, AreMadeByAKernelOfPoints) {
  ProgramBuilder b;
  const int x = b.input(kSummedMatrix), dy = b.input(kSummedMatrix);
  const int product = b.mul(kSummedMatrix, x, dy);
  const auto [weight, bias] = columns_of(b, product, dy);
  b.program.outputs = {product, weight, bias};
  sum_and_compare(b.program, 2);
  EXPECT_EQ(kernel_count(b.program), 2);
}

TEST(ColumnSums, TwoOfOneKernelOfRows) {
  ProgramBuilder b;
  const int x = b.input(kSummedMatrix), dy = b.input(kSummedMatrix);
  const auto [weight, bias] = columns_of(b, x, dy);
  const int rows = rows_of(b, x, dy);
  const auto [second_weight, second_bias] = columns_of(b, rows, dy);
  b.program.outputs = {weight, bias, second_weight, second_bias, rows};
  sum_and_compare(b.program, 4);
  EXPECT_EQ(kernel_count(b.program), 3);
}

// What needs the sums cannot make them: a batch norm's input, or sums of what depends on sums.
TEST(ColumnSums, AreNotMadeByWhatNeedsThem) {
  ProgramBuilder b;
  const int x = b.input(kSummedMatrix), dy = b.input(kSummedMatrix);
  const auto [weight, bias] = columns_of(b, x, dy);
  const int scaled = b.mul(kSummedMatrix, x, weight);
  b.program.outputs = {scaled, bias};
  sum_and_compare(b.program, 0);
  ProgramBuilder c;
  const int y = c.input(kSummedMatrix), z = c.input(kSummedMatrix);
  const int rows = rows_of(c, y, z);
  const auto first = columns_of(c, y, z);
  auto k = c.draft("columns", {kSummedColumns}, {kSummedRows});
  const ExprRef distance = c.pool().binary(ExprKind::kSub, k.load(y, {k.axis(1), k.axis(0)}),
                                           k.load(first.first, {k.axis(0)}));
  const int second = c.buffer(loop::Buffer::Kind::kComputed, {kSummedColumns});
  k.store(second, k.outer_axes(), k.reduce(ReduceOp::kSum, distance), false);
  k.finish();
  c.program.outputs = {rows, first.second, second};
  sum_and_compare(c.program, 2);
}

TEST(ColumnSums, StayWhereNothingIsGained) {
  const auto program = [](ProgramBuilder& b) {
    const int x = b.input(kSummedMatrix), dy = b.input(kSummedMatrix);
    const int rows = rows_of(b, x, dy);
    const auto [weight, bias] = columns_of(b, x, dy);
    b.program.outputs = {rows, weight, bias};
  };
  target::PartCosts narrow = kSumCosts, large = kSumCosts, many = kSumCosts, none = kSumCosts;
  narrow.most_sums = 2 * kSummedColumns - 1;
  large.least_bytes = 2 * kSummedRows * kSummedColumns * 4 + 1;
  many.processors = kSummedRows / 4 + 1;
  none.processors = 0;
  for (const target::PartCosts& costs : {narrow, large, many, none}) {
    ProgramBuilder b;
    program(b);
    sum_and_compare(b.program, 0, costs);
  }
}

// Rows, columns, points and calls in any order, fused before.
TEST(ColumnSums, RandomPrograms) {
  int joined = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return random() % n; };
    ProgramBuilder b;
    std::vector<int> matrices = {b.input(kSummedMatrix), b.input(kSummedMatrix)},
                     vectors = {b.input({16})};
    const auto any = [&](const std::vector<int>& of) {
      return of[of.size() - 1 - below(of.size())];
    };
    for (size_t steps = 3 + below(8); steps > 0; --steps) {
      switch (below(6)) {
        case 0:
          matrices.push_back(rows_of(b, any(matrices), any(matrices)));
          break;
        case 1:
        case 2: {
          const auto [weight, bias] = columns_of(b, any(matrices), any(matrices));
          vectors.insert(vectors.end(), {weight, bias});
          break;
        }
        case 3:
          matrices.push_back(b.add(kSummedMatrix, any(matrices), any(matrices)));
          break;
        case 4:
          matrices.push_back(b.sub(kSummedMatrix, any(matrices), any(vectors)));
          break;
        default:
          matrices.push_back(b.call("aten.mm", {any(matrices), any(matrices)}, kSummedMatrix));
      }
    }
    for (size_t i = 0; i < 3; ++i)
      b.program.outputs.push_back(below(2) ? any(matrices) : any(vectors));
    fuse_and_compare(b.program, kSummingGpu, seed);
    compare(b.program, kSummingGpu, seed, [&] {
      const Aliases aliases(b.program);
      sum_columns_beside_rows(b.program, aliases, {}, kSumCosts);
    });
    joined += parts_in(b.program);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(joined, 100);
}

}  // namespace
}  // namespace braze::schedule
