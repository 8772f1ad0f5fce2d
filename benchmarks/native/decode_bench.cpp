// decode_bench: milliseconds per JPEG, whole and cut to RandomResizedCrop boxes, for libjpeg-turbo and for
// our decoder.
//
//   decode_bench [--rounds N] FILE...
//
// First proves that both give the same pixels, then times them in turn, file by file, so that noise hits both
// alike. Prints the medians over the rounds of the mean CPU time per file (one thread).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "codecs/jpeg_decoder.h"
#include "codecs/libjpeg_decoder.h"
#include "crops.h"
#include "millrace/error.h"

namespace {

using namespace millrace;
using namespace millrace::bench;

int run(int rounds, const std::vector<std::string>& paths) {
  const std::vector<Sample> samples = read_samples(paths, rounds);
  Pixels first(samples), second(samples);
  size_t total_bytes = 0, ours = 0;
  codecs::JpegDecoder decoder;
  for (const Sample& s : samples) {
    total_bytes += s.bytes.size();
    for (const base::Rect& box : s.boxes) {
      codecs::libjpeg_decode(s.bytes, s.header, box, first.view(box));
      decoder.decode(s.bytes, s.header, box, second.view(box));
      ours += decoder.used_baseline();
      if (first.same_colours(second, box)) continue;
      std::fprintf(stderr, "the decoders differ\n");
      return 1;
    }
  }

  struct Side {
    const char* name;
    bool whole;
    std::function<void(const Sample&, base::Rect)> decode;
    std::vector<double> ms;
  };
  const auto by_libjpeg = [&](const Sample& s, base::Rect r) {
    codecs::libjpeg_decode(s.bytes, s.header, r, first.view(r));
  };
  const auto by_us = [&](const Sample& s, base::Rect r) {
    decoder.decode(s.bytes, s.header, r, second.view(r));
  };
  std::vector<Side> sides{{"libjpeg-turbo, whole", true, by_libjpeg, {}},
                          {"libjpeg-turbo, crop", false, by_libjpeg, {}},
                          {"millrace, whole", true, by_us, {}},
                          {"millrace, crop", false, by_us, {}}};
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> spent(sides.size(), 0.0);
    for (const Sample& s : samples)
      for (size_t i = 0; i < sides.size(); ++i) {
        const base::Rect r = sides[i].whole ? base::Rect{0, 0, s.header.width, s.header.height}
                                            : s.boxes[static_cast<size_t>(round)];
        const double begin = cpu_ms();
        sides[i].decode(s, r);
        spent[i] += cpu_ms() - begin;
      }
    for (size_t i = 0; i < sides.size(); ++i)
      sides[i].ms.push_back(spent[i] / static_cast<double>(samples.size()));
  }
  std::printf("%zu files, mean %zu bytes; our own decoder took %zu of %zu crops\n", samples.size(),
              total_bytes / samples.size(), ours, samples.size() * static_cast<size_t>(rounds));
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
