// segment_bench: what cutting JPEGs into segments costs and gains when RandomResizedCrop boxes are decoded.
//
//   segment_bench [--rounds N] [--length PIXELS]... FILE...
//
// Transcodes each file in memory with several lengths of segments, proves that all give the plain file's
// pixels, then times them in turn, box by box. Prints the median over the rounds of the mean CPU time per box
// (one thread), and the bytes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "codecs/jpeg_decoder.h"
#include "codecs/jpeg_transcode.h"
#include "crops.h"
#include "millrace/error.h"

namespace {

using namespace millrace;
using namespace millrace::bench;

struct Side {
  std::string name;
  std::vector<std::vector<uint8_t>> files;
  std::vector<double> ms = {};
};

int run(int rounds, const std::vector<int32_t>& lengths, const std::vector<std::string>& paths) {
  const std::vector<Sample> samples = read_samples(paths, rounds);
  std::vector<Side> sides;
  const auto add = [&](const std::string& name, auto make) {
    sides.push_back({name, {}});
    for (const Sample& s : samples) sides.back().files.push_back(make(s.bytes));
  };
  using Bytes = std::vector<uint8_t>;
  add("as it is", [](const Bytes& b) { return b; });
  for (const bool own : {false, true})
    for (const int32_t length : lengths)
      add((own ? "own tables, " : "standard tables, ") + std::to_string(length),
          [&](const Bytes& b) { return codecs::transcode_jpeg(b, {length, own}); });

  codecs::JpegDecoder decoder;
  Pixels first(samples), second(samples);
  for (const Side& side : sides)
    for (size_t i = 0; i < samples.size(); ++i) {
      const Sample& s = samples[i];
      for (const base::Rect& box : s.boxes) {
        decoder.decode(s.bytes, s.header, box, first.view(box));
        decoder.decode(side.files[i], s.header, box, second.view(box));
        if (first.same_colours(second, box) && decoder.used_baseline()) continue;
        std::fprintf(stderr, "%s: other pixels\n", side.name.c_str());
        return 1;
      }
    }

  // A side takes all files in turn, so that it finds neither pixels nor branches of the same picture in the
  // caches.
  for (int round = 0; round < rounds; ++round)
    for (size_t k = 0; k < sides.size(); ++k) {
      Side& side = sides[round % 2 ? sides.size() - 1 - k : k];
      const double begin = cpu_ms();
      for (size_t i = 0; i < samples.size(); ++i) {
        const base::Rect box = samples[i].boxes[static_cast<size_t>(round)];
        decoder.decode(side.files[i], samples[i].header, box, first.view(box));
      }
      side.ms.push_back((cpu_ms() - begin) / static_cast<double>(samples.size()));
    }
  size_t plain_bytes = 0;
  for (const Side& side : sides) {
    size_t bytes = 0;
    for (const auto& file : side.files) bytes += file.size();
    if (plain_bytes == 0) plain_bytes = bytes;
    std::printf("%-26s %7.4f ms  %.3f x as quick, %+6.2f %% bytes\n", side.name.c_str(), median(side.ms),
                median(sides[0].ms) / median(side.ms),
                100.0 * (static_cast<double>(bytes) / static_cast<double>(plain_bytes) - 1.0));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 15;
  std::vector<int32_t> lengths;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
      rounds = std::max(1, std::atoi(argv[++i]));
    else if (std::strcmp(argv[i], "--length") == 0 && i + 1 < argc)
      lengths.push_back(std::max(0, std::atoi(argv[++i])));
    else
      paths.push_back(argv[i]);
  }
  if (paths.empty()) {
    std::fprintf(stderr, "usage: segment_bench [--rounds N] [--length PIXELS]... FILE...\n");
    return 2;
  }
  if (lengths.empty()) lengths = {0, 32, 64, 96, 128, 256, 100000};
  try {
    return run(rounds, lengths, paths);
  } catch (const Error& error) {
    std::fprintf(stderr, "segment_bench: %s\n", error.what());
    return 1;
  }
}
