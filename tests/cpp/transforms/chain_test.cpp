#include "transforms/chain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "millrace/error.h"
#include "test_parts.h"

namespace millrace::transforms {
namespace {

std::string refusal(const std::vector<TransformSpec>& chain) {
  try {
    check_chain(chain);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_argument);
    return e.what();
  }
  return "accepted";
}

void expect_refusal(const std::vector<TransformSpec>& chain, const std::vector<std::string>& words) {
  const std::string message = refusal(chain);
  for (const std::string& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' in: " << message;
}

using test::kNormalize;

TEST(Chain, SortsGeometryFromNumbers) {
  const Chain chain =
      check_chain({ExifTranspose{}, Resize{.height = 256}, ToTensor{}, HorizontalFlip{}, kNormalize});
  ASSERT_EQ(chain.steps.size(), 3u);
  EXPECT_EQ(chain.steps[2].op, 3u);
  EXPECT_TRUE(chain.needs_orientation());
  EXPECT_EQ(chain.normalize->mean[1], 0.456);
}

TEST(Chain, OneMeanServesAllChannels) {
  const Chain chain = check_chain({ToTensor{}, Normalize{{0.5}, {0.25}}});
  EXPECT_EQ(chain.normalize->mean, (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(chain.normalize->std, (std::vector<double>{0.25, 0.25, 0.25}));
}

TEST(Chain, RefusesWrongOrder) {
  expect_refusal({}, {"no ToTensor", "end it with ToTensor()"});
  expect_refusal({Resize{.height = 8}}, {"no ToTensor"});
  expect_refusal({kNormalize, ToTensor{}}, {"Normalize (transform 0", "put ToTensor() in front"});
  expect_refusal({ToTensor{}, ToTensor{}}, {"ToTensor (transform 1", "keep one"});
  expect_refusal({ToTensor{}, kNormalize, kNormalize}, {"Normalize (transform 2", "stands twice"});
  expect_refusal({ToTensor{}, Resize{.height = 8}}, {"Resize (transform 1", "put it before ToTensor"});
  expect_refusal({HorizontalFlip{}, ExifTranspose{}, ToTensor{}},
                 {"ExifTranspose (transform 1", "must stand first"});
  expect_refusal({ToTensor{}, ColorJitter{}}, {"ColorJitter (transform 1", "put it before ToTensor"});
  expect_refusal({ToTensor{}, RandomErasing{}, HorizontalFlip{}},
                 {"RandomHorizontalFlip (transform 2", "put it before RandomErasing"});
  expect_refusal({RandomErasing{}, ToTensor{}},
                 {"RandomErasing (transform 0", "no float tensor", "put ToTensor of a float type"});
  expect_refusal({ToTensor{OutputType::u8}, RandomErasing{}}, {"no float tensor"});
  EXPECT_EQ(refusal({ToTensor{}, RandomErasing{}, RandomErasing{}}), "accepted");
}

TEST(Chain, LetsWholePixelsMoveBehindToTensor) {
  EXPECT_EQ(refusal({ToTensor{}, kNormalize, HorizontalFlip{}, VerticalFlip{}}), "accepted");
  EXPECT_EQ(refusal({ToTensor{}, kNormalize, RandomCrop{.height = 8, .width = 8}}), "accepted");
  EXPECT_EQ(refusal({ToTensor{}, CenterCrop{8, 8}, kNormalize}), "accepted");
  EXPECT_EQ(refusal({ToTensor{}, RandomCrop{.height = 8, .width = 8, .padding = {2, 2, 2, 2}}, kNormalize}),
            "accepted");
  // A zero behind Normalize is no byte's value.
  expect_refusal({ToTensor{}, kNormalize, CenterCrop{8, 8}}, {"CenterCrop", "before ToTensor"});
  expect_refusal({ToTensor{}, kNormalize, RandomCrop{.height = 8, .width = 8, .pad_if_needed = true}},
                 {"RandomCrop"});
  expect_refusal(
      {ToTensor{}, RandomCrop{.height = 8, .width = 8, .padding = {1, 0, 0, 0}, .fill = {1, 1, 1}}},
      {"RandomCrop"});
}

TEST(Chain, RefusesWrongArguments) {
  expect_refusal({CenterCrop{0, 5}, ToTensor{}}, {"CenterCrop", "0 x 5"});
  expect_refusal({RandomResizedCrop{.height = 8, .width = 8, .scale = {0.9, 0.1}}, ToTensor{}}, {"scale"});
  expect_refusal({RandomResizedCrop{.height = 8, .width = 8, .ratio = {0, 4.0 / 3.0}}, ToTensor{}},
                 {"ratio"});
  expect_refusal({Resize{.height = 8, .width = 8, .max_size = 9}, ToTensor{}},
                 {"max_size should only be passed if size"});
  expect_refusal(
      {Resize{.height = 8, .interpolation = Interpolation::nearest, .of_tensor = true}, ToTensor{}},
      {"bilinear or bicubic; use others before"});
  expect_refusal({Resize{.height = 8, .max_size = 8}, ToTensor{}}, {"max_size = 8 must be strictly greater"});
  expect_refusal({RandomCrop{.height = 8, .width = 8, .padding = {0, -1, 0, 0}}, ToTensor{}},
                 {"padding must be >= 0"});
  expect_refusal({ColorJitter{.brightness = Range{-1, 1}}, ToTensor{}},
                 {"brightness must be (min, max)", "got (-1, 1)"});
  expect_refusal({ColorJitter{.hue = Range{0, 0.6}}, ToTensor{}}, {"hue", "0.5"});
  expect_refusal({RandomGrayscale{-0.1}, ToTensor{}}, {"p must lie between 0 and 1"});
  expect_refusal({RandomRotation{{3, 2}}, ToTensor{}},
                 {"RandomRotation", "degrees must be (min, max)", "got (3, 2)"});
  expect_refusal({RandomRotation{{0, std::nan("")}}, ToTensor{}}, {"degrees"});
  expect_refusal({RandomAffine{.translate = {{0.5, 1.5}}}, ToTensor{}}, {"between 0 and 1"});
  expect_refusal({RandomAffine{.scale = Range{0, 1}}, ToTensor{}}, {"scale values should be positive"});
  expect_refusal({GaussianBlur{.kernel_width = 4, .kernel_height = 3}, ToTensor{}}, {"odd and positive"});
  expect_refusal({GaussianBlur{.kernel_width = 3, .kernel_height = 3, .sigma = {0, 1}}, ToTensor{}},
                 {"sigma values should be positive"});
  expect_refusal({ToTensor{}, RandomErasing{.p = 2}}, {"p must lie between 0 and 1"});
  expect_refusal({ToTensor{}, RandomErasing{.scale = {0.5, 1.5}}}, {"scale", "<= 1"});
  expect_refusal({ToTensor{}, RandomErasing{.value = {1, 2}}}, {"a single value or 3"});
  expect_refusal({HorizontalFlip{1.5}, ToTensor{}}, {"p must lie between 0 and 1"});
  expect_refusal({ToTensor{OutputType::u8}, kNormalize},
                 {"Input tensor should be a float tensor. Got torch.uint8"});
  expect_refusal({ToTensor{}, Normalize{{0.5, 0.5}, {1}}}, {"got 2 and 1"});
  expect_refusal({ToTensor{}, Normalize{{0.5}, {0.0}}}, {"std evaluated to zero"});
}

}  // namespace
}  // namespace millrace::transforms
