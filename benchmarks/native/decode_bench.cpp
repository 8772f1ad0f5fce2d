// decode_bench: milliseconds per JPEG, whole and cut to RandomResizedCrop boxes, for libjpeg-turbo and for our decoder.
//
//   decode_bench [--rounds N] FILE...
//
// First proves that both give the same pixels, then times them in turn, file by file, so that noise hits both alike. Prints the
// medians over the rounds of the mean CPU time per file (one thread).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "codecs/jpeg_decoder.h"
#include "codecs/libjpeg_decoder.h"
#include "millrace/error.h"

namespace {

using namespace millrace;

struct Sample {
  std::vector<uint8_t> bytes;
  JpegHeader header;
  std::vector<Rect> boxes;
};

// torchvision's RandomResizedCrop with its default arguments.
Rect random_resized_crop(int32_t width, int32_t height, std::mt19937& random) {
  std::uniform_real_distribution<double> scale(0.08, 1.0), log_ratio(std::log(3.0 / 4.0), std::log(4.0 / 3.0));
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

double cpu_ms() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(int rounds, const std::vector<std::string>& paths) {
  std::mt19937 random(1);
  std::vector<Sample> samples;
  size_t total_bytes = 0, most_pixels = 0;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    Sample sample;
    sample.bytes.assign(std::istreambuf_iterator<char>(file), {});
    sample.header = probe_jpeg(sample.bytes);
    for (int i = 0; i < rounds; ++i)
      sample.boxes.push_back(random_resized_crop(sample.header.width, sample.header.height, random));
    total_bytes += sample.bytes.size();
    most_pixels = std::max(most_pixels, static_cast<size_t>(sample.header.width) * static_cast<size_t>(sample.header.height));
    samples.push_back(std::move(sample));
  }

  std::vector<uint8_t> first(most_pixels * kPixelBytes), second(first.size());
  const auto view = [](std::vector<uint8_t>& pixels, Rect r) {
    return ImageView{pixels.data(), r.width, r.height, ptrdiff_t{r.width} * kPixelBytes};
  };
  JpegDecoder decoder;
  size_t ours = 0;
  for (const Sample& s : samples)
    for (const Rect& box : s.boxes) {
      libjpeg_decode(s.bytes, s.header, box, view(first, box));
      decoder.decode(s.bytes, s.header, box, view(second, box));
      ours += decoder.used_baseline();
      const size_t pixels = static_cast<size_t>(box.width) * static_cast<size_t>(box.height);
      for (size_t i = 0; i < pixels; ++i)
        if (std::memcmp(&first[4 * i], &second[4 * i], 3) != 0) {
          std::fprintf(stderr, "the decoders differ\n");
          return 1;
        }
    }

  struct Side {
    const char* name;
    bool whole;
    std::function<void(const Sample&, Rect)> decode;
    std::vector<double> ms;
  };
  const auto by_libjpeg = [&](const Sample& s, Rect r) { libjpeg_decode(s.bytes, s.header, r, view(first, r)); };
  const auto by_us = [&](const Sample& s, Rect r) { decoder.decode(s.bytes, s.header, r, view(second, r)); };
  std::vector<Side> sides{{"libjpeg-turbo, whole", true, by_libjpeg, {}},
                          {"libjpeg-turbo, crop", false, by_libjpeg, {}},
                          {"millrace, whole", true, by_us, {}},
                          {"millrace, crop", false, by_us, {}}};
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> spent(sides.size(), 0.0);
    for (const Sample& s : samples)
      for (size_t i = 0; i < sides.size(); ++i) {
        const Rect r = sides[i].whole ? Rect{0, 0, s.header.width, s.header.height} : s.boxes[static_cast<size_t>(round)];
        const double begin = cpu_ms();
        sides[i].decode(s, r);
        spent[i] += cpu_ms() - begin;
      }
    for (size_t i = 0; i < sides.size(); ++i) sides[i].ms.push_back(spent[i] / static_cast<double>(samples.size()));
  }
  std::printf("%zu files, mean %zu bytes; our own decoder took %zu of %zu crops\n", samples.size(), total_bytes / samples.size(),
              ours, samples.size() * static_cast<size_t>(rounds));
  for (const Side& side : sides)
    std::printf("%-22s %7.3f ms  (%.2f of libjpeg-turbo, whole)\n", side.name, median(side.ms),
                median(side.ms) / median(sides[0].ms));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 15;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
      rounds = std::max(1, std::atoi(argv[++i]));
    else
      paths.push_back(argv[i]);
  }
  if (paths.empty()) {
    std::fprintf(stderr, "usage: decode_bench [--rounds N] FILE...\n");
    return 2;
  }
  try {
    return run(rounds, paths);
  } catch (const Error& error) {
    std::fprintf(stderr, "decode_bench: %s\n", error.what());
    return 1;
  }
}
