// The PNG and WebP files of tests/data, and PictureDecoder over exact buffers.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../test_data.h"
#include "codecs/picture_decoder.h"
#include "jpeg_files.h"
#include "millrace/error.h"

namespace millrace::codecs::test {

// All files of a folder of tests/data, sorted.
inline std::vector<std::filesystem::path> data_files(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(test_data(folder)))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  EXPECT_GT(paths.size(), 5u);
  return paths;
}

inline Bytes read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// The whole picture, or nothing when it is refused. The bytes and each row's pixels lie in buffers of exactly
// their size, for the sanitizers.
inline std::optional<Picture> decode_whole(PictureDecoder& decoder, const Bytes& bytes) {
  constexpr int64_t kMostTestPixels = 1 << 20;
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), exact.get());
  try {
    const PictureHeader header = decoder.probe({exact.get(), bytes.size()});
    if (int64_t{header.width} * header.height > kMostTestPixels) return std::nullopt;
    Picture picture{
        header.width, header.height,
        Bytes(static_cast<size_t>(header.width) * static_cast<size_t>(header.height) * base::kPixelBytes)};
    decoder.decode({0, 0, header.width, header.height}, picture.view());
    return picture;
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::corrupt_data || error.kind() == ErrorKind::unavailable)
        << error.what();
    EXPECT_FALSE(std::string(error.what()).empty());
    return std::nullopt;
  }
}

}  // namespace millrace::codecs::test
