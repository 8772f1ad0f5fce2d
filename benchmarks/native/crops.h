// What the decoder benchmarks share: files in memory, torchvision's random crops, CPU time, medians.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/geometry.h"
#include "codecs/image_header.h"

namespace millrace::bench {

struct Sample {
  std::vector<uint8_t> bytes;
  codecs::JpegHeader header;
  std::vector<base::Rect> boxes;
};

// torchvision's RandomResizedCrop with its default arguments.
inline base::Rect random_resized_crop(int32_t width, int32_t height, std::mt19937& random) {
  std::uniform_real_distribution<double> scale(0.08, 1.0),
      log_ratio(std::log(3.0 / 4.0), std::log(4.0 / 3.0));
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = scale(random) * width * height, ratio = std::exp(log_ratio(random));
    const auto w = static_cast<int32_t>(std::lround(std::sqrt(area * ratio))),
               h = static_cast<int32_t>(std::lround(std::sqrt(area / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    return {std::uniform_int_distribution<int32_t>(0, width - w)(random),
            std::uniform_int_distribution<int32_t>(0, height - h)(random), w, h};
  }
  const int32_t side = std::min(width, height);
  return {(width - side) / 2, (height - side) / 2, side, side};
}

// The files with one box for each round.
inline std::vector<Sample> read_samples(const std::vector<std::string>& paths, int rounds) {
  std::mt19937 random(1);
  std::vector<Sample> samples;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    Sample sample;
    sample.bytes.assign(std::istreambuf_iterator<char>(file), {});
    sample.header = codecs::probe_jpeg(sample.bytes);
    for (int i = 0; i < rounds; ++i)
      sample.boxes.push_back(random_resized_crop(sample.header.width, sample.header.height, random));
    samples.push_back(std::move(sample));
  }
  return samples;
}

inline double cpu_ms() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A buffer that holds any of the pictures, and a view of its beginning.
struct Pixels {
  explicit Pixels(const std::vector<Sample>& samples) {
    size_t most = 0;
    for (const Sample& s : samples)
      most = std::max(most, static_cast<size_t>(s.header.width) * static_cast<size_t>(s.header.height));
    bytes.resize(most * base::kPixelBytes);
  }
  base::ImageView view(base::Rect r) {
    return {bytes.data(), r.width, r.height, ptrdiff_t{r.width} * base::kPixelBytes};
  }
  bool same_colours(const Pixels& other, base::Rect r) const {
    for (size_t i = 0; i < static_cast<size_t>(r.width) * static_cast<size_t>(r.height) * base::kPixelBytes;
         ++i)
      if (i % base::kPixelBytes != 3 && bytes[i] != other.bytes[i]) return false;
    return true;
  }
  std::vector<uint8_t> bytes;
};

}  // namespace millrace::bench
