// What the codec tests share: the test files, an independent reference decode, and a loop over the machine's
// instruction sets.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/geometry.h"
#include "codecs/jpeg_decoder.h"

namespace millrace::codecs::test {

using Bytes = std::vector<uint8_t>;

struct Picture {
  int32_t width = 0, height = 0;
  std::vector<uint8_t> rgbx;
  base::ImageView view() { return {rgbx.data(), width, height, ptrdiff_t{width} * base::kPixelBytes}; }
};

std::vector<std::string> jpeg_names();  // all of tests/data/jpeg, sorted, without ".jpg"
Bytes read_jpeg(const std::string& name);

// The whole picture by libjpeg alone, grey and CMYK turned into RGB as Pillow does; empty when libjpeg
// reports an error.
std::optional<Picture> reference_decode(std::span<const uint8_t> bytes);

// `region` of the picture by `decoder`.
Picture decode(JpegDecoder& decoder, const Bytes& bytes, base::Rect region);

// Red, green and blue of `region` of `whole` equal to `part`; else the first difference in words.
std::string difference(const Picture& whole, base::Rect region, const Picture& part);

// Runs `body` once for each instruction set that was compiled and that this machine has.
void for_each_target(const std::function<void()>& body);

}  // namespace millrace::codecs::test
