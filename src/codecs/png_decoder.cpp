#include "codecs/png_decoder.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/checked.h"
#include "millrace/error.h"

namespace millrace::codecs {
namespace {

// Adam7: the pixels (left + i x across, top + j x down) of each of seven smaller pictures.
struct Pass {
  int32_t left, top, across, down;
  int32_t width(int32_t of) const { return (of - left + across - 1) / across; }
  int32_t height(int32_t of) const { return (of - top + down - 1) / down; }
};
constexpr Pass kPasses[] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                            {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};

// Without the byte in front that names the filter.
size_t row_bytes(const PngFile& file, int32_t width) {
  return (static_cast<size_t>(width) * static_cast<size_t>(file.pixel_bits()) + 7) / 8;
}

size_t pixel_bytes(const PngFile& file) { return static_cast<size_t>(std::max(1, file.pixel_bits() / 8)); }

size_t raw_bytes(const PngFile& file, int32_t width, int32_t height) {
  return width == 0
             ? 0
             : base::checked_mul(row_bytes(file, width) + 1, static_cast<size_t>(height), "a decoded PNG");
}

size_t raw_bytes(const PngFile& file) {
  if (!file.interlaced) return raw_bytes(file, file.width, file.height);
  size_t sum = 0;
  for (const Pass& pass : kPasses) sum += raw_bytes(file, pass.width(file.width), pass.height(file.height));
  return sum;
}

[[noreturn]] void fail(const PngFile& file, const char* what) {
  throw Error(ErrorKind::corrupt_data, std::string("PNG's pixels ") + what + ": the file is damaged", {},
              static_cast<int64_t>(file.data_offset));
}

}  // namespace

std::span<const uint8_t> PngDecoder::stream(std::span<const uint8_t> bytes, const PngFile& file) {
  std::span<const uint8_t> only;
  joined_.clear();
  for_each_data_chunk(bytes, file, [&](std::span<const uint8_t> data) {
    if (data.size() == file.data_bytes)
      only = data;
    else
      joined_.insert(joined_.end(), data.begin(), data.end());
  });
  return joined_.empty() ? only : joined_;
}

void PngDecoder::unfilter(uint8_t* rows, int32_t count, size_t row_bytes, size_t wanted_bytes,
                          const PngFile& file) {
  line_.assign(wanted_bytes + InflatePrefix::kSlack, 0);
  const uint8_t* above = line_.data();
  const size_t pixel = pixel_bytes(file);
  for (int32_t y = 0; y < count; ++y, rows += row_bytes + 1) {
    if (!unfilter_row(rows[0], rows + 1, above, wanted_bytes, pixel))
      fail(file, "have a filter that does not exist");
    above = rows + 1;
  }
}

void PngDecoder::decode(std::span<const uint8_t> bytes, const PngFile& file, base::Rect region,
                        base::ImageView out) {
  const size_t row = row_bytes(file, file.width), total = raw_bytes(file);
  const size_t needed = file.interlaced ? total : raw_bytes(file, file.width, region.bottom());
  uint8_t* const raw = inflate_.inflate(stream(bytes, file), needed, total);
  if (!raw) fail(file, "cannot be inflated, or are too few");
  if (file.interlaced) {
    decode_passes(raw, file, region, out);
    return;
  }
  unfilter(raw, region.bottom(), row, row_bytes(file, region.right()), file);
  const PngColors colors(file);
  for (int32_t y = 0; y < region.height; ++y)
    colors.expand(raw + static_cast<size_t>(region.top + y) * (row + 1) + 1, region.left, region.width,
                  out.row(y));
}

void PngDecoder::decode_passes(uint8_t* raw, const PngFile& file, base::Rect region, base::ImageView out) {
  const PngColors colors(file);
  for (const Pass& pass : kPasses) {
    const int32_t width = pass.width(file.width), height = pass.height(file.height);
    if (width == 0) continue;
    const size_t row = row_bytes(file, width);
    unfilter(raw, height, row, row, file);
    line_.resize(static_cast<size_t>(width) * base::kPixelBytes);
    for (int32_t j = 0; j < height; ++j, raw += row + 1) {
      const int32_t y = pass.top + j * pass.down - region.top;
      if (y < 0 || y >= region.height) continue;
      colors.expand(raw + 1, 0, width, line_.data());
      uint8_t* const to = out.row(y);
      for (int32_t i = 0; i < width; ++i) {
        const int32_t x = pass.left + i * pass.across - region.left;
        if (x >= 0 && x < region.width)
          std::memcpy(to + x * base::kPixelBytes, line_.data() + i * base::kPixelBytes, base::kPixelBytes);
      }
    }
  }
}

}  // namespace millrace::codecs
