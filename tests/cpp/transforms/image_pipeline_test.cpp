#include "transforms/image_pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/error.h"
#include "test_parts.h"

namespace millrace::transforms {
namespace {

using test::kNormalize;

struct Picture {
  std::vector<uint8_t> pixels;
  base::ImageView view;
  Picture(int32_t width, int32_t height) : pixels(size_t(width) * height * base::kPixelBytes) {
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 2654435761u >> 11);
    view = {pixels.data(), width, height, width * base::kPixelBytes};
  }
  base::ImageView part(base::Rect r) const {
    return {view.row(r.top) + r.left * base::kPixelBytes, r.width, r.height, view.stride_bytes};
  }
};

std::vector<float> run(const ImagePipeline& pipeline, const Picture& picture, int64_t index,
                       ImagePipeline::Scratch& scratch) {
  const SampleParams params =
      pipeline.draw(picture.view.width, picture.view.height, 1, {.seed = 3, .epoch = 0, .index = index});
  const auto need = pipeline.plan(picture.view.width, picture.view.height, params, scratch);
  std::vector<float> out(size_t(need.shape.channels) * need.shape.height * need.shape.width);
  pipeline.apply(picture.part(need.region), scratch, out.data());
  return out;
}

TEST(ImagePipeline, KnowsItsShape) {
  const auto shape = [](std::vector<TransformSpec> chain) {
    return ImagePipeline::create(std::move(chain))->fixed_shape();
  };
  EXPECT_EQ(shape({ToTensor{}}), std::nullopt);
  EXPECT_EQ(shape({Resize{.height = 256}, ToTensor{}}), std::nullopt);
  EXPECT_EQ(shape({Resize{.height = 256}, CenterCrop{224, 200}, HorizontalFlip{}, ToTensor{}}),
            (OutputShape{3, 224, 200}));
  EXPECT_EQ(shape({CenterCrop{30, 20}, Resize{.height = 10}, ToTensor{}}), (OutputShape{3, 15, 10}));
  const auto pipeline = ImagePipeline::create({ToTensor{OutputType::bf16}});
  EXPECT_EQ(pipeline->output_type(), base::DType::bf16);
  EXPECT_FALSE(pipeline->needs_orientation());
}

TEST(ImagePipeline, MovesPixelsUnchanged) {
  const auto pipeline = ImagePipeline::create({ToTensor{OutputType::u8}});
  const Picture picture(37, 5);
  const auto scratch = ImagePipeline::make_scratch();
  const auto need = pipeline->plan(37, 5, {}, *scratch);
  EXPECT_EQ(need.region, (base::Rect{0, 0, 37, 5}));
  std::vector<uint8_t> out(3 * 5 * 37);
  pipeline->apply(picture.view, *scratch, out.data());
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < 5; ++y)
      for (int x = 0; x < 37; ++x)
        ASSERT_EQ(out[(c * 5 + y) * 37 + x], picture.pixels[(y * 37 + x) * base::kPixelBytes + c]);
}

TEST(ImagePipeline, InterleavedIsTheSameValuesPixelByPixel) {
  const Picture picture(61, 47);
  for (const std::vector<TransformSpec>& chain : std::vector<std::vector<TransformSpec>>{
           {RandomResizedCrop{.height = 19, .width = 23}, HorizontalFlip{}, ToTensor{}, kNormalize},
           {HorizontalFlip{1.0}, ToTensor{}},
           {Resize{.height = 15}, ToTensor{.channels = 1}}}) {
    const auto pipeline = ImagePipeline::create(chain);
    const auto scratch = ImagePipeline::make_scratch();
    const std::vector<float> planes = run(*pipeline, picture, 4, *scratch);
    const SampleParams params = pipeline->draw(61, 47, 1, {.seed = 3, .epoch = 0, .index = 4});
    const auto need = pipeline->plan(61, 47, params, *scratch);
    std::vector<float> pixels(planes.size());
    pipeline->apply_interleaved(picture.part(need.region), *scratch, pixels.data());
    const auto channels = static_cast<size_t>(need.shape.channels), plane = planes.size() / channels;
    for (size_t i = 0; i < planes.size(); ++i)
      ASSERT_EQ(pixels[i], planes[i % channels * plane + i / channels]) << "element " << i;
  }
  const auto erasing = ImagePipeline::create({ToTensor{}, RandomErasing{}});
  const auto scratch = ImagePipeline::make_scratch();
  erasing->plan(61, 47, erasing->draw(61, 47, 1, {}), *scratch);
  std::vector<float> out(size_t{3} * 61 * 47);
  EXPECT_THROW(erasing->apply_interleaved(picture.view, *scratch, out.data()), Error);
}

TEST(ImagePipeline, WritesOnlyItsRowWhateverItsAlignment) {
  const auto pipeline = ImagePipeline::create({Resize{.height = 33, .width = 35}, ToTensor{}, kNormalize});
  const Picture picture(60, 50);
  const auto scratch = ImagePipeline::make_scratch();
  pipeline->plan(60, 50, {}, *scratch);
  const size_t n = 3 * 33 * 35;
  std::vector<float> reference(n), shifted(n + 2, 77.0f);
  pipeline->apply(picture.view, *scratch, reference.data());
  pipeline->apply(picture.view, *scratch, shifted.data() + 1);
  EXPECT_EQ(shifted.front(), 77.0f);
  EXPECT_EQ(shifted.back(), 77.0f);
  EXPECT_TRUE(std::equal(reference.begin(), reference.end(), shifted.begin() + 1));
}

TEST(ImagePipeline, ScratchServesAnyPipelineInAnyOrder) {
  const auto small = ImagePipeline::create({RandomResizedCrop{.height = 9, .width = 11}, ToTensor{}});
  const auto padded = ImagePipeline::create(
      {RandomCrop{.height = 40, .width = 40, .padding = {9, 9, 9, 9}, .fill = {1, 2, 3}}, ToTensor{}});
  const Picture picture(50, 45);
  const auto shared = ImagePipeline::make_scratch();
  for (int64_t i = 0; i < 20; ++i)
    for (const ImagePipeline* pipeline : {small.get(), padded.get()}) {
      const auto fresh = ImagePipeline::make_scratch();
      ASSERT_EQ(run(*pipeline, picture, i, *shared), run(*pipeline, picture, i, *fresh));
    }
}

// Any chain, on memory of exactly its region's size: a read outside of it is the address sanitizer's to find.
TEST(ImagePipeline, ReadsOnlyItsRegion) {
  const TransformSpec steps[] = {
      RandomResizedCrop{.height = 20, .width = 33},
      Resize{.height = 25},
      CenterCrop{30, 17},
      RandomCrop{
          .height = 19, .width = 23, .padding = {7, 7, 7, 7}, .pad_if_needed = true, .fill = {1, 2, 3}},
      HorizontalFlip{},
      ColorJitter{Range{0, 2}, Range{0, 2}, Range{0, 2}, Range{-0.5, 0.5}},
      Grayscale{},
      RandomGrayscale{0.5},
      RandomRotation{{-180, 180}},
      RandomRotation{{-180, 180}, Interpolation::bilinear},
      RandomAffine{.degrees = {-9, 9}, .translate = {{1, 1}}, .scale = Range{0.01, 9}},
      RandomAffine{.degrees = {}, .translate = {{1, 1}}, .scale = Range{0.01, 9}},
      RandomAffine{.degrees = {-9, 9}, .shear_x = {-80, 80}, .interpolation = Interpolation::bicubic},
      GaussianBlur{.kernel_width = 7, .kernel_height = 3}};
  std::mt19937 random(5);
  const auto shared = ImagePipeline::make_scratch();
  for (int64_t round = 0; round < 400; ++round) {
    std::vector<TransformSpec> chain;
    for (unsigned i = random() % 6; i > 0; --i) chain.push_back(steps[random() % std::size(steps)]);
    chain.insert(chain.end(), {ToTensor{}, RandomErasing{.value = {}}});
    const auto pipeline = ImagePipeline::create(chain);
    const Picture picture(8 + random() % 60, 8 + random() % 60);
    const auto fresh = ImagePipeline::make_scratch();
    const SampleParams params =
        pipeline->draw(picture.view.width, picture.view.height, 1, {.seed = 3, .epoch = 0, .index = round});
    std::vector<float> results[2];
    for (const auto& [scratch, result] :
         {std::pair(shared.get(), &results[0]), std::pair(fresh.get(), &results[1])}) {
      const auto need = pipeline->plan(picture.view.width, picture.view.height, params, *scratch);
      std::vector<uint8_t> region(size_t(need.region.width) * need.region.height * base::kPixelBytes);
      const base::ImageView view{region.data(), need.region.width, need.region.height,
                                 need.region.width * base::kPixelBytes};
      const base::ImageView part = picture.part(need.region);
      for (int32_t y = 0; y < view.height; ++y)
        std::memcpy(view.row(y), part.row(y), size_t(view.width) * base::kPixelBytes);
      result->resize(size_t(3) * need.shape.height * need.shape.width);
      pipeline->apply(view, *scratch, result->data());
    }
    ASSERT_EQ(results[0], results[1]) << "round " << round;
  }
}

TEST(ImagePipeline, ThreadsShareOnePipeline) {
  const auto pipeline = ImagePipeline::create(
      {RandomResizedCrop{.height = 40, .width = 40}, HorizontalFlip{}, ToTensor{}, kNormalize});
  const Picture picture(120, 100);
  std::vector<std::vector<float>> expected;
  const auto scratch = ImagePipeline::make_scratch();
  for (int64_t i = 0; i < 30; ++i) expected.push_back(run(*pipeline, picture, i, *scratch));
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const auto own = ImagePipeline::make_scratch();
      for (int64_t i = 0; i < 30; ++i) wrong += run(*pipeline, picture, i, *own) != expected[i];
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(ImagePipeline, RefusesPicturesAndRegionsThatDoNotFit) {
  const auto pipeline = ImagePipeline::create({Resize{.height = 8, .width = 8}, ToTensor{}});
  const auto scratch = ImagePipeline::make_scratch();
  EXPECT_THROW(pipeline->draw(0, 5, 1, {}), Error);
  EXPECT_THROW(pipeline->plan(5, -1, {}, *scratch), Error);
  pipeline->plan(20, 20, {}, *scratch);
  const Picture picture(19, 20);
  std::vector<float> out(3 * 8 * 8);
  try {
    pipeline->apply(picture.view, *scratch, out.data());
    FAIL() << "a region of the wrong size was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("20 x 19"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace millrace::transforms
