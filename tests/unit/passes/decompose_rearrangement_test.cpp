// Images rearranged: shuffles of pixels and channels, windows as columns and back.
#include <gtest/gtest.h>

#include "graph/interpreter/interpreter.h"
#include "passes/decompose.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

TEST(DecomposeRearrangement, PixelShuffle) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[2, 8, 3, 5]) {
    %1: f32[2, 2, 6, 10] = aten.pixel_shuffle(%0, 2)
    return %1
  })"),
            R"(graph(%0: f32[2, 8, 3, 5]) {
  %1: f32[2, 2, 2, 2, 3, 5] #%0 = aten.view(%0, [2, 2, 2, 2, 3, 5])
  %2: f32[2, 2, 3, 2, 5, 2]{120, 60, 5, 30, 1, 15} #%0 = aten.permute(%1, [0, 1, 4, 2, 5, 3])
  %3: f32[2, 2, 3, 2, 5, 2] = aten.clone(%2, contiguous_format)
  %4: f32[2, 2, 6, 10] #%3 = aten.view(%3, [2, 2, 6, 10])
  return %4
}
)");
}

TEST(DecomposeRearrangement, PixelShuffleWithChannelsInnermost) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[2, 8, 3, 5]{120, 1, 40, 8}) {
    %1: f32[2, 2, 6, 10]{120, 1, 20, 2} = aten.pixel_shuffle(%0, 2)
    return %1
  })"),
            R"(graph(%0: f32[2, 8, 3, 5]{120, 1, 40, 8}) {
  %1: f32[2, 2, 2, 2, 3, 5]{120, 4, 2, 1, 40, 8} #%0 = aten.view(%0, [2, 2, 2, 2, 3, 5])
  %2: f32[2, 3, 2, 5, 2, 2]{120, 40, 2, 8, 1, 4} #%0 = aten.permute(%1, [0, 4, 2, 5, 3, 1])
  %3: f32[2, 3, 2, 5, 2, 2] = aten.clone(%2, contiguous_format)
  %4: f32[2, 6, 10, 2] #%3 = aten.view(%3, [2, 6, 10, 2])
  %5: f32[2, 2, 6, 10]{120, 1, 20, 2} #%3 = aten.permute(%4, [0, 3, 1, 2])
  return %5
}
)");
}

TEST(DecomposeRearrangement, PixelUnshuffle) {
  EXPECT_EQ(decomposed(R"(graph(%0: f16[2, 4, 6]) {
    %1: f16[8, 2, 3] = aten.pixel_unshuffle(%0, 2)
    return %1
  })"),
            R"(graph(%0: f16[2, 4, 6]) {
  %1: f16[2, 2, 2, 3, 2] #%0 = aten.view(%0, [2, 2, 2, 3, 2])
  %2: f16[2, 2, 2, 2, 3]{24, 6, 1, 12, 2} #%0 = aten.permute(%1, [0, 2, 4, 1, 3])
  %3: f16[2, 2, 2, 2, 3] = aten.clone(%2, contiguous_format)
  %4: f16[8, 2, 3] #%3 = aten.view(%3, [8, 2, 3])
  return %4
}
)");
}

TEST(DecomposeRearrangement, ChannelShuffleOfABatchThatVaries) {
  EXPECT_EQ(decomposed(R"(graph(s0 = size(%0, 0) hint 4, %0: f32[s0, 6, 5]) {
    %1: f32[s0, 6, 5] = aten.channel_shuffle(%0, 3)
    return %1
  })"),
            R"(graph(s0 = size(%0, 0) hint 4, %0: f32[s0, 6, 5]) {
  %1: f32[s0, 3, 2, 5] #%0 = aten.view(%0, [s0, 3, 2, 5])
  %2: f32[s0, 2, 3, 5]{30, 5, 10, 1} #%0 = aten.permute(%1, [0, 2, 1, 3])
  %3: f32[s0, 2, 3, 5] = aten.clone(%2, contiguous_format)
  %4: f32[s0, 6, 5] #%3 = aten.view(%3, [s0, 6, 5])
  return %4
}
)");
}

TEST(DecomposeRearrangement, WindowsAsColumns) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[2, 3, 6, 7]{126, 1, 21, 3}) {
    %1: f32[2, 18, 18] = aten.im2col(%0, [2, 3], [2, 1], [1, 0], [1, 2])
    return %1
  })"),
            R"(graph(%0: f32[2, 3, 6, 7]{126, 1, 21, 3}) {
  %1: f32[2, 3, 6, 7] = aten.clone(%0, contiguous_format)
  %2: f32[2, 3, 8, 7] = aten.constant_pad_nd(%1, [0, 0, 1, 1], 0)
  %3: f32[2, 3, 6, 7, 3]{168, 56, 7, 1, 7} #%2 = aten.unfold(%2, 2, 3, 1)
  %4: f32[2, 3, 6, 3, 3, 3]{168, 56, 7, 2, 7, 1} #%2 = aten.unfold(%3, 3, 3, 2)
  %5: f32[2, 3, 6, 3, 2, 3]{168, 56, 7, 2, 14, 1} #%2 = aten.slice.Tensor(%4, 4, 0, 3, 2)
  %6: f32[2, 3, 2, 3, 6, 3]{168, 56, 14, 1, 7, 2} #%2 = aten.permute(%5, [0, 1, 4, 5, 2, 3])
  %7: f32[2, 3, 2, 3, 6, 3] = aten.clone(%6, contiguous_format)
  %8: f32[2, 18, 18] #%7 = aten.view(%7, [2, 18, 18])
  return %8
}
)");
}

TEST(DecomposeRearrangement, ColumnsAddedUpToAnImage) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[2, 6, 15]) {
    %1: f32[2, 3, 3, 4] = aten.col2im(%0, [3, 4], [1, 2], [1, 1], [0, 1], [1, 1])
    return %1
  })"),
            R"(graph(%0: f32[2, 6, 15]) {
  %1: f32[2, 3, 1, 2, 3, 5] #%0 = aten.view(%0, [2, 3, 1, 2, 3, 5])
  %2: f32[2, 3, 2, 3, 5] #%0 = aten.select.int(%1, 2, 0)
  %3: f32[2, 3, 3, 5]{90, 30, 5, 1} #%0 = aten.select.int(%2, 2, 0)
  %4: f32[2, 3, 3, 5] = aten.clone(%3, contiguous_format)
  %5: f32[2, 3, 3, 4] = aten.constant_pad_nd(%4, [-1, 0, 0, 0], 0)
  %6: f32[2, 3, 3, 4] = aten.add.Scalar(%5, 0.0, 1)
  %7: f32[2, 3, 2, 3, 5] #%0 = aten.select.int(%1, 2, 0)
  %8: f32[2, 3, 3, 5]{90, 30, 5, 1}+15 #%0 = aten.select.int(%7, 2, 1)
  %9: f32[2, 3, 3, 5] = aten.clone(%8, contiguous_format)
  %10: f32[2, 3, 3, 4] = aten.constant_pad_nd(%9, [0, -1, 0, 0], 0)
  %11: f32[2, 3, 3, 4] = aten.add.Tensor(%6, %10, 1)
  return %11
}
)");
}

TEST(DecomposeRearrangement, WhatStays) {
  // Sizes of windows that vary; many points; on a CPU sums of windows that do not lie side by side.
  for (const std::string_view text : {R"(graph(s0 = size(%0, 1) hint 6, %0: f32[3, s0, 6]) {
    %1: f32[12, s0*5 - 5] = aten.im2col(%0, [2, 2], [1, 1], [0, 0], [1, 1])
    return %1
  })",
                                      R"(graph(%0: f32[1, 36, 1]) {
    %1: f32[1, 1, 6, 6] = aten.col2im(%0, [6, 6], [6, 6], [1, 1], [0, 0], [1, 1])
    return %1
  })",
                                      R"(graph(%0: f32[1, 4, 4]) {
    %1: f32[1, 1, 4, 4] = aten.col2im(%0, [4, 4], [2, 2], [1, 1], [0, 0], [2, 2])
    return %1
  })"})
    expect_unchanged_by(decompose, text);
}

// Windows along one dimension of an image.
struct Windows {
  int64_t size, kernel, dilation, padding, stride;
  int64_t count() const { return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; }
};

std::string list(int64_t a, int64_t b) {
  return "[" + std::to_string(a) + ", " + std::to_string(b) + "]";
}

// Of columns with the numbers 1, 2, ..., on a GPU, against sums point by point.
void check_sum_of_columns(const Windows& rows, const Windows& columns) {
  const int64_t points = rows.kernel * columns.kernel, places = rows.count() * columns.count();
  const std::string text =
      "graph(%0: f32" + list(2 * points, places) + "@cuda:0) {\n  %1: f32[2, " +
      std::to_string(rows.size) + ", " + std::to_string(columns.size) +
      "]@cuda:0 = aten.col2im(%0, " + list(rows.size, columns.size) + ", " +
      list(rows.kernel, columns.kernel) + ", " + list(rows.dilation, columns.dilation) + ", " +
      list(rows.padding, columns.padding) + ", " + list(rows.stride, columns.stride) +
      ")\n  return %1\n}\n";
  SCOPED_TRACE(text);
  graph::Graph graph = graph::parse(text);
  ASSERT_TRUE(decompose(graph));
  ASSERT_EQ(to_string(graph).find("col2im"), std::string::npos);
  graph::Tensor given = graph::make_tensor(graph.inputs()[0].value->type());
  double next = 0;
  graph::for_each_index(given.type.sizes, [&](std::span<const int64_t> index) {
    given.set(index, graph::Number::of(++next));
  });
  std::vector<double> sums(2 * rows.size * columns.size, 0.0);
  graph::for_each_index(given.type.sizes, [&](std::span<const int64_t> index) {
    const int64_t channel = index[0] / points, point = index[0] % points;
    const int64_t y = index[1] / columns.count() * rows.stride - rows.padding +
                      point / columns.kernel * rows.dilation;
    const int64_t x = index[1] % columns.count() * columns.stride - columns.padding +
                      point % columns.kernel * columns.dilation;
    if (y >= 0 && y < rows.size && x >= 0 && x < columns.size)
      sums[(channel * rows.size + y) * columns.size + x] += given.get(index).as_double();
  });
  const std::vector<graph::Number> made = graph::interpret(graph, {&given, 1})[0].numbers();
  ASSERT_EQ(made.size(), sums.size());
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(made[i].as_double(), sums[i]) << i;
}

TEST(DecomposeRearrangement, SumsOfColumnsOnAGpu) {
  for (const Windows& rows : {Windows{5, 2, 1, 0, 1}, Windows{6, 3, 1, 1, 2},
                              Windows{7, 2, 3, 2, 2}, Windows{4, 1, 1, 0, 3}})
    for (const Windows& columns : {Windows{6, 3, 2, 1, 1}, Windows{8, 2, 1, 0, 3}})
      check_sum_of_columns(rows, columns);
}

}  // namespace
}  // namespace braze::passes
