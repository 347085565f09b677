// Pooling, resampling and padding on GPUs, against loops that add up in memory.
#include <algorithm>
#include <cmath>

#include "loop/run_program.h"

namespace braze::loop {
namespace {

// Of one image of one channel.
struct Size {
  int64_t rows, columns;
  int64_t points() const { return rows * columns; }
};

std::string type_of(Size size, const std::string& dtype = "f32") {
  return dtype + "[1, 1, " + std::to_string(size.rows) + ", " + std::to_string(size.columns) +
         "]@cuda:0";
}

Numbers numbers(int64_t count, int64_t seed = 1) {
  Numbers result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(static_cast<double>((i * 37 + seed * 11) % 23 - 11));
  return result;
}

// One call over images and perhaps places in them.
Numbers run_on_gpu(const std::string& call,
                   const std::vector<std::pair<std::string, Numbers>>& inputs, Size result) {
  std::string text = "graph(";
  std::vector<Numbers> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    text += (i ? ", %" : "%") + std::to_string(i) + ": " + inputs[i].first;
    given.push_back(inputs[i].second);
  }
  const std::string name = "%" + std::to_string(inputs.size());
  text += ") {\n  " + name + ": " + type_of(result) + " = " + call + "\n  return " + name + "\n}\n";
  const graph::Graph graph = graph::parse(text);
  const Program program = lower(graph, target::cuda(90, 132, 3350000));
  EXPECT_EQ(program.items.size(), 1u) << to_string(program);
  EXPECT_TRUE(std::holds_alternative<ScheduledKernel>(program.items[0])) << to_string(program);
  return ProgramRunner(program).run(given).value().at(0);
}

void expect_near(const Numbers& got, const Numbers& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-5 * (1 + std::abs(want[i]))) << what << ", element " << i;
}

struct Windows {
  int64_t kernel, stride, padding;
  bool ceil;

  int64_t count(int64_t size) const {
    const int64_t room = size + 2 * padding - kernel;
    int64_t windows = (room + (ceil ? stride - 1 : 0)) / stride + 1;
    if (ceil && (windows - 1) * stride >= size + padding) --windows;
    return windows;
  }
  Size of(Size image) const { return {count(image.rows), count(image.columns)}; }
  std::string arguments() const {
    const auto pair = [](int64_t n) {
      return "[" + std::to_string(n) + ", " + std::to_string(n) + "]";
    };
    return pair(kernel) + ", " + pair(stride) + ", " + pair(padding);
  }
};

const std::vector<Windows> kWindows = {{2, 2, 0, false}, {3, 2, 1, false}, {3, 2, 1, true},
                                       {3, 1, 1, false}, {2, 3, 0, false}, {5, 2, 2, true},
                                       {1, 1, 0, false}, {4, 2, 0, true}};
const Size kImage{9, 8};

// f(window, points in the image, points of the window that eager counts with the padding)
template <class F>
void for_each_window(const Windows& windows, Size image, F&& f) {
  const Size size = windows.of(image);
  for (int64_t r = 0; r < size.rows; ++r)
    for (int64_t c = 0; c < size.columns; ++c) {
      std::vector<int64_t> points;
      const auto [kernel, stride, padding, ceil] = windows;
      const int64_t row = r * stride - padding, column = c * stride - padding;
      for (int64_t i = row; i < row + kernel; ++i)
        for (int64_t j = column; j < column + kernel; ++j)
          if (i >= 0 && i < image.rows && j >= 0 && j < image.columns)
            points.push_back(i * image.columns + j);
      const int64_t all = (std::min(row + kernel, image.rows + padding) - row) *
                          (std::min(column + kernel, image.columns + padding) - column);
      f(r * size.columns + c, points, all);
    }
}

TEST(LoweringImages, GradientsOfMaxima) {
  const Numbers image = numbers(kImage.points());
  for (const Windows& windows : kWindows) {
    const Size size = windows.of(kImage);
    const Numbers grad = numbers(size.points(), 2);
    Numbers places(size.points()), want(kImage.points(), 0);
    for_each_window(windows, kImage, [&](int64_t window, const auto& points, int64_t) {
      places[window] = static_cast<double>(*std::ranges::max_element(
          points, [&](int64_t a, int64_t b) { return image[a] < image[b]; }));
      want[static_cast<size_t>(places[window])] += grad[window];
    });
    const std::string call = "aten.max_pool2d_with_indices_backward(%0, %1, " +
                             windows.arguments() + ", [1, 1], " +
                             (windows.ceil ? "true" : "false") + ", %2)";
    const Numbers got = run_on_gpu(
        call, {{type_of(size), grad}, {type_of(kImage), image}, {type_of(size, "i64"), places}},
        kImage);
    expect_near(got, want, call);
  }
}

TEST(LoweringImages, MeansOfWindowsAndTheirGradients) {
  const Numbers image = numbers(kImage.points());
  for (const Windows& windows : kWindows)
    for (const std::string rest : {"true, None", "false, None", "true, 3"}) {
      const Size size = windows.of(kImage);
      const Numbers grad = numbers(size.points(), 2);
      Numbers means(size.points()), shares(kImage.points(), 0);
      for_each_window(windows, kImage, [&](int64_t window, const auto& points, int64_t all) {
        const double by = rest.ends_with("3")        ? 3
                          : rest.starts_with("true") ? static_cast<double>(all)
                                                     : static_cast<double>(points.size());
        for (int64_t point : points) {
          means[window] += image[point] / by;
          shares[point] += grad[window] / by;
        }
      });
      const std::string arguments =
          windows.arguments() + (windows.ceil ? ", true, " : ", false, ") + rest + ")";
      std::string call = "aten.avg_pool2d(%0, " + arguments;
      expect_near(run_on_gpu(call, {{type_of(kImage), image}}, size), means, call);
      call = "aten.avg_pool2d_backward(%0, %1, " + arguments;
      expect_near(run_on_gpu(call, {{type_of(size), grad}, {type_of(kImage), image}}, kImage),
                  shares, call);
    }
}

TEST(LoweringImages, LargeWindowsAreReductions) {
  const Size image{48, 56}, size{4, 7};
  const Numbers x = numbers(image.points());
  Numbers means(size.points(), 0);
  for (int64_t i = 0; i < image.rows; ++i)
    for (int64_t j = 0; j < image.columns; ++j)
      means[i / 12 * 7 + j / 8] += x[i * image.columns + j] / 96;
  expect_near(run_on_gpu("aten._adaptive_avg_pool2d(%0, [4, 7])", {{type_of(image), x}}, size),
              means, "adaptive");
  expect_near(run_on_gpu("aten.avg_pool2d(%0, [12, 8])", {{type_of(image), x}}, size), means,
              "of windows");
}

// The gradient of an operator that is linear in its images is its transpose: <f(x), y> = <x, g(y)>.
void expect_transposes(const std::string& forward, Size image, const std::string& backward,
                       Size result) {
  const Numbers x = numbers(image.points()), y = numbers(result.points(), 3);
  const Numbers fx = run_on_gpu(forward, {{type_of(image), x}}, result);
  std::vector<std::pair<std::string, Numbers>> inputs = {{type_of(result), y}};
  if (backward.find("%1") != std::string::npos) inputs.emplace_back(type_of(image), x);
  const Numbers gy = run_on_gpu(backward, inputs, image);
  double left = 0, right = 0;
  for (size_t i = 0; i < y.size(); ++i) left += fx[i] * y[i];
  for (size_t i = 0; i < x.size(); ++i) right += gy[i] * x[i];
  EXPECT_NEAR(left, right, 1e-3) << forward;
  double sum = 0, share = 0;  // each row of weights has a sum of one
  for (double one : y) sum += one;
  for (double one : gy) share += one;
  EXPECT_NEAR(sum, share, 1e-3) << backward;
}

TEST(LoweringImages, GradientsAreTransposes) {
  const Size image{4, 6}, twice{8, 12}, thrice{12, 18};
  expect_transposes("aten.upsample_nearest2d(%0, [8, 12], 2.0, 2.0)", image,
                    "aten.upsample_nearest2d_backward(%0, [8, 12], [1, 1, 4, 6], 2.0, 2.0)", twice);
  expect_transposes("aten.upsample_nearest2d(%0, [12, 18], None, None)", image,
                    "aten.upsample_nearest2d_backward(%0, [12, 18], [1, 1, 4, 6], None, None)",
                    thrice);
  expect_transposes("aten.upsample_bilinear2d(%0, [8, 12], false, 2.0, 2.0)", image,
                    "aten.upsample_bilinear2d_backward(%0, [8, 12], [1, 1, 4, 6], false, 2.0, 2.0)",
                    twice);
  expect_transposes("aten.reflection_pad2d(%0, [5, 4, 2, 3])", image,
                    "aten.reflection_pad2d_backward(%0, %1, [5, 4, 2, 3])", {9, 15});
  expect_transposes("aten.reflection_pad2d(%0, [0, 1, 3, 0])", image,
                    "aten.reflection_pad2d_backward(%0, %1, [0, 1, 3, 0])", {7, 7});
  expect_transposes("aten._adaptive_avg_pool2d(%0, [2, 3])", image,
                    "aten._adaptive_avg_pool2d_backward(%0, %1)", {2, 3});
}

TEST(LoweringImages, PlacesBetweenPoints) {
  const Numbers x = {0, 1, 2, 3};
  const auto along = [&](const std::string& arguments, int64_t columns) {
    return run_on_gpu(
        "aten.upsample_bilinear2d(%0, [1, " + std::to_string(columns) + "], " + arguments + ")",
        {{type_of({1, 4}), x}}, {1, columns});
  };
  expect_near(along("false, None, None", 8), {0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3}, "twice");
  expect_near(along("true, None, None", 7), {0, 0.5, 1, 1.5, 2, 2.5, 3}, "corners");
  expect_near(along("false, None, None", 2), {0.5, 2.5}, "half");
  expect_near(along("false, 1.0, 2.5", 10), {0, 0.1, 0.5, 0.9, 1.3, 1.7, 2.1, 2.5, 2.9, 3},
              "a scale");
  const auto nearest = [&](int64_t columns) {
    return run_on_gpu("aten.upsample_nearest2d(%0, [1, " + std::to_string(columns) + "])",
                      {{type_of({1, 4}), x}}, {1, columns});
  };
  expect_near(nearest(6), {0, 0, 1, 2, 2, 3}, "nearest");
  expect_near(nearest(2), {0, 2}, "every second");
}

TEST(LoweringImages, OthersAreLeftToPyTorch) {
  for (const char* text : {
           "graph(%0: f32[1, 1, 7, 7]@cuda:0) {\n"
           "  %1: f32[1, 1, 2, 2]@cuda:0 = aten._adaptive_avg_pool2d(%0, [2, 2])\n  return %1\n}\n",
           "graph(%0: f32[1, 1, 6, 6]@cuda:0) {\n"
           "  %1: f32[1, 1, 4, 4]@cuda:0 = aten.upsample_nearest2d_backward(%0, [6, 6], [1, 1, 4, "
           "4])\n  return %1\n}\n",
           "graph(%0: f32[1, 1, 12, 12]@cuda:0) {\n"
           "  %1: f32[1, 1, 4, 4]@cuda:0 = aten.upsample_bilinear2d_backward(%0, [12, 12], [1, 1, "
           "4, 4], false)\n  return %1\n}\n",
           "graph(%0: f32[1, 1, 12, 12]@cuda:0, %1: f32[1, 1, 12, 12]@cuda:0, %2: i64[1, 1, 10, "
           "10]@cuda:0) {\n"
           "  %3: f32[1, 1, 12, 12]@cuda:0 = aten.max_pool2d_with_indices_backward(%0, %1, [2, 2], "
           "[1, 1], [0, 0], [2, 2], false, %2)\n  return %3\n}\n",
       }) {
    const graph::Graph graph = graph::parse(text);
    const Program program = lower(graph, target::cuda(90, 132, 3350000));
    ASSERT_EQ(program.items.size(), 1u);
    EXPECT_TRUE(std::holds_alternative<ExternCall>(program.items[0])) << to_string(program);
  }
  const graph::Graph graph = graph::parse(
      "graph(%0: f32[1, 1, 8, 8]) {\n  %1: f32[1, 1, 4, 4] = aten.avg_pool2d(%0, [2, 2])\n"
      "  return %1\n}\n");
  EXPECT_TRUE(std::holds_alternative<ExternCall>(lower(graph, target::Cpu{}).items.at(0)));
}

}  // namespace
}  // namespace braze::loop
