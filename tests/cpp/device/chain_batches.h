// Batches of random pictures through a chain twice: by the CPU's transforms, and by augmentation_of() and
// fused_augment() with the same decisions on the CPU reference.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "device/chain_augmentation.h"
#include "transforms/image_pipeline.h"

namespace millrace::device {

// A picture of bytes, RGBX: noise, edges and gradients, few levels, or one colour.
struct RandomPicture {
  int32_t width, height;
  std::vector<uint8_t> pixels;

  RandomPicture(int32_t w, int32_t h, uint32_t seed)
      : width(w), height(h), pixels(static_cast<size_t>(w) * static_cast<size_t>(h) * 4) {
    std::mt19937 random(seed);
    const int low = static_cast<int>(random() % 100), span = 1 + static_cast<int>(random() % 156);
    size_t i = 0;
    for (int32_t y = 0; y < h; ++y)
      for (int32_t x = 0; x < w; ++x)
        for (int c = 0; c < 4; ++c) {
          const int noise = static_cast<int>(random());
          const int values[] = {noise, (x / 9 + y / 7 + c) % 3 * 70 + x * 30 / w + (noise & 15),
                                low + (noise & 0xFFFF) % span, low + 40 * c};
          pixels[i++] = static_cast<uint8_t>(values[seed % 4]);
        }
  }
  base::ImageView part(const base::Rect& r) {
    return base::ImageView{pixels.data(), width, height, ptrdiff_t{width} * 4}.part(r);
  }
};

struct Compared {
  int on_device = 0, with_steps = 0, different = 0;
};

inline std::vector<uint8_t> by_the_cpu(const transforms::ImagePipeline& pipeline, RandomPicture& picture,
                                       const transforms::SampleParams& drawn) {
  const auto scratch = transforms::ImagePipeline::make_scratch();
  const auto need = pipeline.plan(picture.width, picture.height, drawn, *scratch);
  std::vector<uint8_t> out(static_cast<size_t>(need.shape.elements()) *
                           base::dtype_bytes(pipeline.output_type()));
  pipeline.apply(picture.part(need.region), *scratch, out.data());
  return out;
}

// `count` pictures of `least` to `most` pixels a side through `specs`, which end in numbers of one size; the
// results must be equal to the last bit.
inline Compared compare_numbers(const std::vector<TransformSpec>& specs, int64_t count = 150,
                                int32_t least = 24, int32_t most = 90, bool of_one_size = false) {
  const auto pipeline = transforms::ImagePipeline::create(specs);
  std::vector<RandomPicture> pictures;
  std::vector<DecodedPicture> decoded;
  std::vector<Augmentation> all;
  std::vector<std::vector<uint8_t>> wanted;
  std::mt19937 random(static_cast<uint32_t>(specs.size()));
  const auto side = [&] {
    return least + static_cast<int32_t>(random() % static_cast<uint32_t>(most - least + 1));
  };
  Compared result;
  pictures.reserve(static_cast<size_t>(count));
  transforms::OutputShape shape;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t width = of_one_size ? most : side(), height = of_one_size ? least : side();
    RandomPicture& p = pictures.emplace_back(width, height, static_cast<uint32_t>(i));
    const auto drawn = pipeline->draw(width, height, 1 + static_cast<int>(i % 8), {7, 1, i, 0});
    const auto augmentation = augmentation_of(pipeline->chain(), {width, height}, drawn);
    if (!augmentation) continue;
    ++result.on_device;
    result.with_steps += !augmentation->steps.empty();
    all.push_back(*augmentation);
    decoded.push_back({p.pixels.data(), width, height, width * 4, 4});
    wanted.push_back(by_the_cpu(*pipeline, p, drawn));
    const auto scratch = transforms::ImagePipeline::make_scratch();
    shape = pipeline->plan(width, height, drawn, *scratch).shape;
  }
  if (all.empty()) return result;
  const auto elements =
      static_cast<size_t>(shape.elements()) * static_cast<size_t>(base::dtype_bytes(pipeline->output_type()));
  std::vector<uint8_t> got(all.size() * elements, 77);
  const auto& normalize = pipeline->chain().normalize;
  const std::vector<double> none;
  constexpr size_t kGuard = 64;
  const size_t bytes_needed = fused_workspace_bytes(all, shape.height, shape.width);
  std::vector<uint8_t> workspace(bytes_needed + kGuard + 16, 0xA5);
  auto* const memory =
      reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(workspace.data()) + 15) / 16 * 16);
  fused_augment(decoded, all, normalize ? normalize->mean : none, normalize ? normalize->std : none,
                {got.data(), pipeline->output_type(), static_cast<int64_t>(all.size()), 3, shape.height,
                 shape.width, false},
                memory, {});
  for (size_t i = 0; i < kGuard; ++i) EXPECT_EQ(memory[bytes_needed + i], 0xA5) << "behind the workspace";
  for (size_t i = 0; i < all.size(); ++i)
    result.different +=
        !std::equal(wanted[i].begin(), wanted[i].end(), got.begin() + static_cast<ptrdiff_t>(i * elements),
                    got.begin() + static_cast<ptrdiff_t>((i + 1) * elements));
  EXPECT_EQ(result.different, 0) << "of " << all.size() << " pictures";
  return result;
}

// As uint8.
inline Compared compare(std::vector<TransformSpec> specs, int64_t count = 150, int32_t least = 24,
                        int32_t most = 90, bool of_one_size = false) {
  ToTensor bytes;
  bytes.type = OutputType::u8;
  specs.emplace_back(bytes);
  return compare_numbers(specs, count, least, most, of_one_size);
}

}  // namespace millrace::device
