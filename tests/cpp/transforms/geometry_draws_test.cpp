// Frames, sizes, perspectives and choices: what is drawn, and what a plan needs of the picture for it.
#include "transforms/ops/operations.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/error.h"
#include "transforms/affine_matrix.h"
#include "transforms/draws.h"
#include "transforms/sample_plan.h"
#include "test_parts.h"

namespace millrace::transforms {
namespace {

using test::key;

RandomChoice choice_of(std::vector<double> weights, std::vector<std::vector<TransformSpec>> lists) {
  return {std::move(weights), std::make_shared<const ChoiceBranches>(ChoiceBranches{std::move(lists)})};
}

TEST(Frames, LieInsideOrAroundThePictureAlongEachAxis) {
  const Chain chain =
      check_chain({Frame{.kind = Frame::Kind::anywhere, .height = 30, .width = 10}, ToTensor{}});
  std::set<int32_t> lefts, tops;
  for (int i = 0; i < 500; ++i) {
    const base::Rect box = draw_params(chain, {14, 25}, 1, key(i)).ops[0].box;
    EXPECT_EQ(box.width, 10);
    EXPECT_EQ(box.height, 30);
    lefts.insert(box.left), tops.insert(box.top);
  }
  EXPECT_EQ(lefts, (std::set<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(tops, (std::set<int32_t>{-5, -4, -3, -2, -1, 0}));
}

TEST(Frames, ZoomOutKeepsThePictureInside) {
  const Chain chain = check_chain({Frame{.kind = Frame::Kind::zoom_out, .p = 0.5}, ToTensor{}});
  int applied = 0;
  for (int i = 0; i < 1000; ++i) {
    const SampleParams params = draw_params(chain, {40, 30}, 1, key(i));
    const OpParams& op = params.ops[0];
    applied += op.applied;
    SamplePlan plan;
    make_sample_plan(chain, {40, 30}, params, plan);
    EXPECT_EQ(plan.region, (base::Rect{0, 0, 40, 30}));
    if (!op.applied) continue;
    EXPECT_LE(op.box.left, 0);
    EXPECT_GE(op.box.right(), 40);
    EXPECT_LE(op.box.bottom(), 120);
    EXPECT_EQ(plan.out, (PictureSize{op.box.width, op.box.height}));
  }
  EXPECT_NEAR(applied, 500, 70);
}

TEST(Frames, ACutOffBorderIsNotDecoded) {
  const Chain chain = check_chain({Frame{.padding = {-3, -4, -5, 6}}, ToTensor{}});
  SamplePlan plan;
  make_sample_plan(chain, {40, 30}, {}, plan);
  EXPECT_EQ(plan.region, (base::Rect{3, 4, 32, 26}));
  EXPECT_EQ(plan.out, (PictureSize{32, 32}));
  EXPECT_THROW(make_sample_plan(chain, {8, 30}, {}, plan), Error);
}

TEST(Sizes, AreThoseOfTheirFormulas) {
  using Kind = DrawnResize::Kind;
  EXPECT_EQ(resized_size({.kind = Kind::shortest}, {100, 50}, {.size = 30}), (PictureSize{60, 30}));
  EXPECT_EQ(resized_size({.kind = Kind::shortest, .max_size = 40}, {100, 50}, {.size = 30}),
            (PictureSize{40, 20}));
  EXPECT_EQ(resized_size({.kind = Kind::between}, {50, 100}, {.size = 7}), (PictureSize{7, 14}));
  const DrawnResize covers{.height = 20, .width = 30}, inside{.height = 20, .width = 30, .longest = 1};
  EXPECT_EQ(resized_size(covers, {90, 90}, {}), (PictureSize{30, 30}));
  EXPECT_EQ(resized_size(inside, {90, 90}, {}), (PictureSize{20, 20}));
  EXPECT_EQ(resized_size(covers, {90, 90}, {.scale = 0.5, .aspect = 4}), (PictureSize{30, 8}));  // 7.5
  EXPECT_THROW(resized_size(covers, {90, 90}, {.scale = 1e-9}), Error);
  EXPECT_THROW(resized_size(covers, {90, 90}, {.scale = 1e300}), Error);
}

TEST(Sizes, OfTheLongerSide) {
  EXPECT_EQ(resized_size(Resize{.max_size = 50}, {100, 70}), (PictureSize{50, 35}));
  EXPECT_EQ(resized_size(Resize{.max_size = 50}, {7, 10}), (PictureSize{35, 50}));
  EXPECT_THROW(check_chain({Resize{}, ToTensor{}}), Error);
}

// A map takes its corners where they should go, and a window has all places that are looked at.
TEST(Perspective, TakesCornersToCorners) {
  std::mt19937 random(5);
  const auto below = [&](int32_t n) { return static_cast<int32_t>(random() % static_cast<uint32_t>(n)); };
  int maps = 0;
  for (int round = 0; round < 3000; ++round) {
    const PictureSize size{2 + below(600), 2 + below(600)};
    OpParams decided;
    Draw draw{size, 1, base::Philox(key(round), 0), decided};
    const PerspectiveParams& made = decided.perspective;
    try {
      Operation<RandomPerspective>::draw({.distortion_scale = (round % 11) / 10.0, .p = 1}, draw);
    } catch (const Error&) {
      continue;
    }
    ++maps;
    const Homography& m = made.inverse;
    const std::array<std::array<int32_t, 2>, 4> starts{
        {{0, 0}, {size.width - 1, 0}, {size.width - 1, size.height - 1}, {0, size.height - 1}}};
    for (size_t i = 0; i < 4; ++i) {
      const auto [x, y] = made.corners[i];
      const double divisor = m[6] * x + m[7] * y + 1;
      if (std::abs(divisor) < 1e-2) continue;  // where floats are too short
      EXPECT_NEAR((m[0] * x + m[1] * y + m[2]) / divisor, starts[i][0], 0.05 / std::abs(divisor));
      EXPECT_NEAR((m[3] * x + m[4] * y + m[5]) / divisor, starts[i][1], 0.05 / std::abs(divisor));
    }
    const Window out_x{below(size.width), 1}, out_y{below(size.height), 1};
    const Window wide_x{out_x.begin / 2, out_x.begin - out_x.begin / 2 + 1},
        wide_y{out_y.begin / 2, out_y.begin - out_y.begin / 2 + 1};
    const MapWindow window = mapped_window(m, wide_x, wide_y, size);
    const double x = out_x.begin + 0.5, y = out_y.begin + 0.5, divisor = m[6] * x + m[7] * y + 1;
    const double at_x = (m[0] * x + m[1] * y + m[2]) / divisor, at_y = (m[3] * x + m[4] * y + m[5]) / divisor;
    if (!(at_x >= 0 && at_x < size.width && at_y >= 0 && at_y < size.height)) continue;
    EXPECT_GE(at_x, window.x.begin);
    EXPECT_LT(at_x, window.x.begin + window.x.size);
    EXPECT_GE(at_y, window.y.begin);
    EXPECT_LT(at_y, window.y.begin + window.y.size);
  }
  EXPECT_GT(maps, 2800);
}

TEST(Perspective, OfNothingMovedIsTheIdentity) {
  EXPECT_EQ(perspective_inverse({{{0, 0}, {8, 0}, {8, 5}, {0, 5}}}, {9, 6}),
            (Homography{1, 0, 0, 0, 1, 0, 0, 0}));
  EXPECT_THROW(perspective_inverse({{{0, 0}, {4, 0}, {8, 0}, {0, 5}}}, {9, 6}), Error);
  EXPECT_THROW(perspective_inverse({{{2, 1}, {2, 1}, {7, 4}, {1, 4}}}, {9, 6}), Error);
  EXPECT_THROW(perspective_inverse({{{0, 0}, {0, 0}, {0, 5}, {0, 5}}}, {1, 6}), Error);
}

TEST(Perspective, OfThreeCornersOnALineShowsTheFourth) {
  const Homography m = perspective_inverse({{{1, 3}, {4, 2}, {7, 1}, {3, 5}}}, {9, 6});
  for (const auto& [x, y] : {std::pair{1.5, 0.5}, {8.5, 4.5}, {3.5, 5.5}}) {
    const double divisor = m[6] * x + m[7] * y + 1;
    EXPECT_NEAR((m[0] * x + m[1] * y + m[2]) / divisor, 0, 1e-4);
    EXPECT_NEAR((m[3] * x + m[4] * y + m[5]) / divisor, 5, 1e-4);
  }
}

TEST(Choices, DrawABranchAndItsStepsWithStreamsOfTheirOwn) {
  const Chain chain =
      check_chain({choice_of({1, 0, 3}, {{HorizontalFlip{}, HorizontalFlip{}}, {}, {VerticalFlip{}}}),
                   HorizontalFlip{}, ToTensor{}});
  int last = 0, equal = 0, first = 0;
  for (int i = 0; i < 4000; ++i) {
    const SampleParams params = draw_params(chain, {9, 9}, 1, key(i));
    ASSERT_EQ(params.ops[0].kind, kKindOf<RandomChoice>);
    ASSERT_NE(params.ops[0].chosen, 1u);
    last += params.ops[0].chosen == 2;
    EXPECT_EQ(params.ops.back().op, 1u);
    SamplePlan plan;
    make_sample_plan(chain, {9, 9}, params, plan);
    if (params.ops[0].chosen != 0) continue;
    ASSERT_EQ(params.ops.size(), 4u);
    EXPECT_EQ(params.ops[1].op, kNestedSteps);
    EXPECT_EQ(params.ops[2].op, kNestedSteps + 1);
    ++first;
    equal += params.ops[1].applied == params.ops[2].applied;
  }
  EXPECT_NEAR(last, 3000, 120);
  EXPECT_NEAR(equal, first / 2.0, 80);
}

TEST(Choices, KnowTheSizeBehindTheBranchThatWasDrawn) {
  const Frame border{.padding = {1, 2, 3, 4}};
  const Chain chain = check_chain({choice_of({1, 1}, {{border}, {Resize{.height = 5, .width = 4}}}),
                                   choice_of({1, 1}, {{}, {border}}), ToTensor{}});
  std::set<std::pair<int32_t, int32_t>> sizes;
  for (int i = 0; i < 100; ++i) {
    SamplePlan plan;
    make_sample_plan(chain, {20, 10}, draw_params(chain, {20, 10}, 1, key(i)), plan);
    sizes.insert({plan.out.width, plan.out.height});
  }
  EXPECT_EQ(sizes, (std::set<std::pair<int32_t, int32_t>>{{24, 16}, {28, 22}, {4, 5}, {8, 11}}));
}

TEST(Choices, RefuseWhatIsNoChangeOfThePicture) {
  const auto refused = [](const RandomChoice& choice) {
    try {
      check_chain({choice, ToTensor{}});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refused(choice_of({1}, {{Normalize{{0}, {1}}}})).find("does more than change the picture"),
            std::string::npos);
  EXPECT_NE(refused(choice_of({1}, {{ExifTranspose{}}})).find("must stand first"), std::string::npos);
  EXPECT_NE(refused(choice_of({1, 2}, {{}})).find("a weight for each"), std::string::npos);
  EXPECT_NE(refused(choice_of({0, 0}, {{}, {}})).find("above 0"), std::string::npos);
  EXPECT_NE(refused(choice_of({1}, {{HorizontalFlip{2}}})).find("p must lie"), std::string::npos);
  EXPECT_NE(refused({}).find("one transform or more"), std::string::npos);
}

TEST(Erasing, SeveralRectanglesShareTheArea) {
  const RandomErasing erasing{.p = 1, .scale = {0.3, 0.3}, .ratio = {1, 1}, .count_min = 1, .count_max = 3};
  const Chain chain = check_chain({CenterCrop{100, 100}, ToTensor{}, erasing});
  std::array<int, 4> counts{};
  for (int i = 0; i < 600; ++i) {
    const SampleParams params = draw_params(chain, {100, 100}, 1, key(i));
    const OpParams& op = params.ops[0];
    const size_t count = 1 + op.more_boxes.size();
    ASSERT_LE(count, 3u);
    ++counts[count];
    const double side = std::nearbyint(std::sqrt(3000.0 / static_cast<double>(count)));
    EXPECT_EQ(op.box.width, side);
    for (const base::Rect& box : op.more_boxes) EXPECT_EQ(box.height, side);
    SamplePlan plan;
    make_sample_plan(chain, {100, 100}, params, plan);
    EXPECT_EQ(plan.numbers.erasures.size(), count);
  }
  for (int count = 1; count <= 3; ++count) EXPECT_NEAR(counts[count], 200, 60);
}

}  // namespace
}  // namespace millrace::transforms
