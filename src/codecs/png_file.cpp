#include "codecs/png_file.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <libdeflate.h>

#include "codecs/image_header.h"
#include "codecs/orientation.h"
#include "millrace/error.h"

namespace millrace::codecs {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr size_t kSignatureBytes = 8;
constexpr size_t kFrame = 12;            // a chunk's length, name and checksum
constexpr int64_t kMostInflated = 1032;  // bytes that one byte of a deflate stream can inflate to

[[noreturn]] void fail_png(const std::string& message, size_t offset) {
  throw Error(ErrorKind::corrupt_data, message, {}, static_cast<int64_t>(offset));
}

[[noreturn]] void leave_to_pillow(const std::string& message, size_t offset) {
  throw Error(ErrorKind::unavailable, message + "; convert the picture, as only Pillow knows what it means",
              {}, static_cast<int64_t>(offset));
}

uint32_t big32(Bytes b, size_t at) {
  return uint32_t{b[at]} << 24 | uint32_t{b[at + 1]} << 16 | uint32_t{b[at + 2]} << 8 | b[at + 3];
}

struct Chunk {
  std::string_view name;
  Bytes data;
  size_t offset = 0;
  size_t end() const { return offset + data.size() + kFrame; }
};

Chunk read_chunk(Bytes bytes, size_t at) {
  const std::string where = " at byte " + std::to_string(at);
  if (bytes.size() - at < kFrame)
    fail_png("PNG ends" + where + " without an IEND chunk: the file is truncated", at);
  const size_t length = big32(bytes, at);
  const std::string_view name(reinterpret_cast<const char*>(bytes.data()) + at + 4, 4);
  for (const char letter : name)
    if (!((letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z')))
      fail_png("PNG has no chunk name" + where + ": the file is damaged", at);
  if (length > bytes.size() - at - kFrame)
    fail_png("PNG chunk " + std::string(name) + where + " claims " + std::to_string(length) +
                 " bytes, but the file has " + std::to_string(bytes.size() - at - kFrame) +
                 " more: it is truncated or damaged",
             at);
  const Bytes data = bytes.subspan(at + 8, length);
  if (libdeflate_crc32(0, bytes.data() + at + 4, length + 4) != big32(bytes, at + 8 + length))
    fail_png("PNG chunk " + std::string(name) + where + " has a wrong checksum: the file is damaged", at);
  return {name, data, at};
}

bool depth_fits(int depth, PngColor color) {
  const bool power = depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
  switch (color) {
    case PngColor::grey: return power;
    case PngColor::palette: return power && depth <= 8;
    case PngColor::rgb:
    case PngColor::grey_alpha:
    case PngColor::rgb_alpha: return depth == 8 || depth == 16;
  }
  return false;
}

void read_header(const Chunk& chunk, PngFile& file) {
  if (chunk.name != "IHDR" || chunk.data.size() != 13)
    fail_png("PNG does not begin with a header chunk: the file is damaged", 8);
  const uint32_t width = big32(chunk.data, 0), height = big32(chunk.data, 4);
  const std::string size = std::to_string(width) + " x " + std::to_string(height);
  if (width == 0 || height == 0 || width > INT32_MAX || height > INT32_MAX)
    fail_png("PNG header gives a picture of " + size + " pixels: the file is damaged", chunk.offset);
  file.depth = chunk.data[8];
  file.color = static_cast<PngColor>(chunk.data[9]);
  if (!depth_fits(file.depth, file.color) || chunk.data[10] != 0 || chunk.data[11] != 0 || chunk.data[12] > 1)
    fail_png(
        "PNG header has a colour type, depth or method that the format does not know: the file is damaged",
        chunk.offset);
  file.interlaced = chunk.data[12] == 1;
  file.width = static_cast<int32_t>(width);
  file.height = static_cast<int32_t>(height);
  refuse_huge("PNG", file.width, file.height, chunk.offset);
}

// Shorter ones are refused by Pillow when it opens the file.
size_t least_bytes(std::string_view name, PngColor color) {
  if (name == "gAMA") return 4;
  if (name == "cHRM") return 32;
  if (name == "sRGB") return 1;
  if (name == "pHYs") return 9;
  if (name == "tRNS") return color == PngColor::grey ? 2 : color == PngColor::rgb ? 6 : 0;
  return 0;
}

// How much `stream` inflates to, or, if that is less than `limit` in any case, a bound of it; nothing where
// it is damaged, ends early, has more past its end, or comes to `limit`.
std::optional<int64_t> inflated_bytes(Bytes stream, int64_t limit) {
  const int64_t bound = static_cast<int64_t>(stream.size()) * kMostInflated;
  if (bound < limit) return bound;
  if (limit <= 0) return std::nullopt;
  const auto most = static_cast<size_t>(std::min(limit, bound));
  const std::unique_ptr<uint8_t[]> out(new (std::nothrow) uint8_t[most]);
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> inflater(
      libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
  size_t used = 0, made = 0;
  if (!out || !inflater ||
      libdeflate_zlib_decompress_ex(inflater.get(), stream.data(), stream.size(), out.get(), most, &used,
                                    &made) != LIBDEFLATE_SUCCESS ||
      used != stream.size() || made == most)
    return std::nullopt;
  return static_cast<int64_t>(made);
}

// What the chunks besides the pixels say.
class Metadata {
 public:
  Metadata(PngFile& file, const PngTextLimits& limits) : file_(file), limits_(limits) {}

  void take(const Chunk& chunk, bool before_data) {
    if (chunk.data.size() < least_bytes(chunk.name, file_.color))
      fail_png("PNG chunk " + std::string(chunk.name) + " is cut short: the file is damaged", chunk.offset);
    if (chunk.name == "IHDR") fail_png("PNG has a second header chunk: the file is damaged", chunk.offset);
    if (chunk.name == "PLTE" && file_.color == PngColor::palette) take_palette(chunk, before_data);
    if (chunk.name == "eXIf") exif_ = chunk.data;
    if (chunk.name == "iCCP") inflated(chunk, chunk.data);
    if (chunk.name == "tEXt" || chunk.name == "zTXt" || chunk.name == "iTXt") take_text(chunk);
    if (chunk.name == "acTL" || chunk.name == "fcTL" || chunk.name == "fdAT")
      take_animation(chunk, before_data);
  }

  // Pillow reads an animation no further than to where its second frame begins.
  bool complete(const Chunk& chunk) const { return animated_ && chunk.name == "fcTL"; }

  void finish(size_t data_offset) {
    if (file_.color == PngColor::palette && file_.palette.empty())
      fail_png("PNG with palette colours has no palette", data_offset);
    const std::optional<int> orientation = picture_orientation(exif_, xmp_);
    if (!orientation) leave_to_pillow("PNG has unusual EXIF data", data_offset);
    file_.orientation = *orientation;
  }

 private:
  void take_palette(const Chunk& chunk, bool before_data) {
    const size_t size = chunk.data.size();
    if (!before_data || !file_.palette.empty() || size == 0 || size % 3 != 0 || size > 768)
      fail_png("PNG has a palette of " + std::to_string(size) +
                   " bytes, or one more, or behind the pixels: the file is damaged",
               chunk.offset);
    file_.palette = chunk.data;
  }

  // The bytes of a compressed text or profile, `data` from its keyword on, which Pillow refuses if they are
  // too many, or compressed in a way that it does not know.
  int64_t inflated(const Chunk& chunk, Bytes data) {
    const auto key = static_cast<size_t>(std::find(data.begin(), data.end(), 0) - data.begin());
    const bool known = key + 1 < data.size() && data[key + 1] == 0;
    const std::optional<int64_t> size =
        known ? inflated_bytes(data.subspan(key + 2), limits_.chunk) : std::nullopt;
    if (!size)
      leave_to_pillow(
          "PNG chunk " + std::string(chunk.name) + " may be larger than texts and profiles may be",
          chunk.offset);
    return *size;
  }

  int64_t text_bytes(const Chunk& chunk, size_t key) {
    const Bytes data = chunk.data;
    if (chunk.name == "zTXt" && key + 1 < data.size()) return inflated(chunk, data);
    if (chunk.name == "iTXt" && key + 2 < data.size() && data[key + 1] != 0) {
      // After the keyword: compressed or not, how, language, translated keyword.
      size_t at = key + 3;
      for (int ends = 0; ends < 2 && at < data.size(); ++at) ends += data[at] == 0;
      const std::optional<int64_t> size =
          data[key + 2] == 0 ? inflated_bytes(data.subspan(at), limits_.chunk) : 0;
      if (!size) leave_to_pillow("PNG has a long text in several languages", chunk.offset);
      return *size;
    }
    return static_cast<int64_t>(data.size());
  }

  // Pillow looks for EXIF and XMP under these keywords, whatever kind of text chunk they head.
  void take_text(const Chunk& chunk) {
    const std::string_view text(reinterpret_cast<const char*>(chunk.data.data()), chunk.data.size());
    const std::string_view key = text.substr(0, text.find('\0'));
    text_bytes_ += text_bytes(chunk, key.size());
    if (text_bytes_ > limits_.all) leave_to_pillow("PNG has more text than it may have", chunk.offset);
    constexpr std::string_view kXmp = "XML:com.adobe.xmp";
    if (key != kXmp && key != "xmp" && key != "exif" && key != "Raw profile type exif") return;
    // After the keyword: compressed or not, how, language, translated keyword.
    size_t at = key.size() + 3;
    for (int ends = 0; ends < 2 && at < text.size(); ++at) ends += text[at] == '\0';
    if (chunk.name != "iTXt" || key != kXmp || text.size() < key.size() + 3 || text[key.size() + 1] != 0 ||
        !xmp_.empty())
      leave_to_pillow("PNG keeps metadata in the unusual text chunk '" + std::string(key) + "'",
                      chunk.offset);
    xmp_ = chunk.data.subspan(std::min(at, text.size()));
  }

  // The first frame is the PNG's own picture, whether or not it counts as part of the animation. Anything
  // that needs more thought is Pillow's.
  void take_animation(const Chunk& chunk, bool before_data) {
    const Bytes data = chunk.data;
    if (chunk.name == "acTL" && before_data && !animated_ && data.size() >= 8 && big32(data, 0) >= 2 &&
        big32(data, 0) <= 0x80000000u) {
      animated_ = true;
      return;
    }
    if (chunk.name == "fcTL" && animated_ && !before_data) return;
    if (chunk.name == "fcTL" && animated_ && !framed_ && data.size() >= 26 && big32(data, 0) == 0 &&
        big32(data, 4) == static_cast<uint32_t>(file_.width) &&
        big32(data, 8) == static_cast<uint32_t>(file_.height) && big32(data, 12) == 0 &&
        big32(data, 16) == 0) {
      framed_ = true;
      return;
    }
    leave_to_pillow("PNG is an unusual animation", chunk.offset);
  }

  PngFile& file_;
  const PngTextLimits& limits_;
  int64_t text_bytes_ = 0;
  Bytes exif_, xmp_;
  bool animated_ = false, framed_ = false;
};

}  // namespace

int PngFile::channels() const {
  switch (color) {
    case PngColor::grey:
    case PngColor::palette: return 1;
    case PngColor::grey_alpha: return 2;
    case PngColor::rgb: return 3;
    case PngColor::rgb_alpha: break;
  }
  return 4;
}

PngFile probe_png(Bytes bytes, const PngTextLimits& limits) {
  if (sniff(bytes) != ImageFormat::png) fail_png("not a PNG: the first eight bytes are not its signature", 0);
  PngFile file;
  Metadata metadata(file, limits);
  Chunk chunk = read_chunk(bytes, kSignatureBytes);
  read_header(chunk, file);
  bool have_data = false, in_data = false;
  while (true) {
    chunk = read_chunk(bytes, chunk.end());
    if (chunk.name == "IEND") break;
    const bool is_data = chunk.name == "IDAT";
    if (is_data) {
      if (have_data && !in_data)
        fail_png("PNG's pixels are interrupted by other chunks: the file is damaged", chunk.offset);
      if (!have_data) file.data_offset = chunk.offset;
      have_data = true;
      file.data_bytes += chunk.data.size();
    } else {
      metadata.take(chunk, !have_data);
      if (have_data && metadata.complete(chunk)) break;
    }
    in_data = is_data;
  }
  if (!have_data) fail_png("PNG has no pixels: there is no IDAT chunk", chunk.offset);
  metadata.finish(file.data_offset);
  return file;
}

}  // namespace millrace::codecs
