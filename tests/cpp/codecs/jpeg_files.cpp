#include "jpeg_files.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <jpeglib.h>

#include "../test_data.h"
#include "base/simd_targets.h"
#include <gtest/gtest.h>
#include <hwy/highway.h>

namespace millrace::codecs::test {
namespace {

const std::filesystem::path kFolder = test_data("jpeg");

struct Failure {
  jpeg_error_mgr errors;
  jmp_buf escape;
};

bool decode_rows(jpeg_decompress_struct& info, Failure& failure, std::span<const uint8_t> bytes,
                 Picture& picture) {
  if (setjmp(failure.escape)) return false;
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, bytes.data(), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_EXT_RGBX;
  jpeg_start_decompress(&info);
  picture.width = static_cast<int32_t>(info.output_width);
  picture.height = static_cast<int32_t>(info.output_height);
  picture.rgbx.resize(size_t{info.output_width} * info.output_height * base::kPixelBytes);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = picture.rgbx.data() + size_t{info.output_scanline} * info.output_width * base::kPixelBytes;
    jpeg_read_scanlines(&info, &row, 1);
  }
  return true;
}

}  // namespace

std::vector<std::string> jpeg_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".jpg") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Bytes read_jpeg(const std::string& name) {
  std::ifstream file(kFolder / (name + ".jpg"), std::ios::binary);
  EXPECT_TRUE(file) << name;
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

std::optional<Picture> reference_decode(std::span<const uint8_t> bytes) {
  jpeg_decompress_struct info{};
  Failure failure;
  info.err = jpeg_std_error(&failure.errors);
  info.client_data = &failure;
  failure.errors.error_exit = [](j_common_ptr c) {
    longjmp(static_cast<Failure*>(c->client_data)->escape, 1);
  };
  failure.errors.emit_message = [](j_common_ptr, int) {};
  Picture picture;
  const bool done = decode_rows(info, failure, bytes, picture);
  const bool cmyk = info.num_components == 4;
  jpeg_destroy_decompress(&info);
  if (!done) return std::nullopt;
  if (cmyk)
    for (size_t i = 0; i < picture.rgbx.size(); i += 4)
      for (size_t c = 0; c < 3; ++c) {
        const int white = picture.rgbx[i + 3], t = (255 - picture.rgbx[i + c]) * white + 128;
        picture.rgbx[i + c] = static_cast<uint8_t>(std::clamp(white - (((t >> 8) + t) >> 8), 0, 255));
      }
  return picture;
}

std::string difference(const Picture& whole, base::Rect region, const Picture& part) {
  for (int32_t y = 0; y < region.height; ++y)
    for (int32_t x = 0; x < region.width; ++x)
      for (int32_t c = 0; c < 3; ++c) {
        const int a = whole.rgbx[static_cast<size_t>(
            ((region.top + y) * whole.width + region.left + x) * base::kPixelBytes + c)];
        const int b = part.rgbx[static_cast<size_t>((y * part.width + x) * base::kPixelBytes + c)];
        if (a != b)
          return "channel " + std::to_string(c) + " at (" + std::to_string(x) + ", " + std::to_string(y) +
                 ") of the region " + std::to_string(region.width) + " x " + std::to_string(region.height) +
                 " at (" + std::to_string(region.left) + ", " + std::to_string(region.top) +
                 "): " + std::to_string(b) + " instead of " + std::to_string(a);
      }
  return {};
}

Picture decode(JpegDecoder& decoder, const Bytes& bytes, base::Rect region) {
  Picture part{
      region.width, region.height,
      Bytes(static_cast<size_t>(region.width) * static_cast<size_t>(region.height) * base::kPixelBytes)};
  decoder.decode(bytes, probe_jpeg(bytes), region, part.view());
  return part;
}

void for_each_target(const std::function<void()>& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace millrace::codecs::test
