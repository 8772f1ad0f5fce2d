// Tar archives written field by field, packed, and read from memory.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/byte_source.h"
#include "millrace/error.h"

namespace millrace::tar_bytes {

class MemorySource final : public io::ByteSource {
 public:
  explicit MemorySource(std::string content, std::string name = "shard.tar")
      : content_(std::move(content)), name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(content_.size()); }
  void read_at(int64_t offset, std::span<uint8_t> into) const override {
    if (offset < 0 || offset > size() || static_cast<int64_t>(into.size()) > size() - offset)
      throw Error(ErrorKind::corrupt_data, name_ + " was read behind its end", name_, offset);
    std::copy_n(content_.begin() + offset, into.size(), into.begin());
  }

 private:
  const std::string content_, name_;
};

inline std::shared_ptr<const io::ByteSource> memory(std::string content) {
  return std::make_shared<MemorySource>(std::move(content));
}

inline std::string octal(int64_t number, size_t digits = 11) {
  std::string text(digits, '0');
  for (size_t i = digits; i > 0; --i, number >>= 3) text[i - 1] = static_cast<char>('0' + (number & 7));
  return text;
}

// GNU's: 12 bytes, the first of which says so (0x80, and 0xFF for negative numbers).
inline std::string base256(int64_t number) {
  std::string text(12, number < 0 ? '\xFF' : '\0');
  for (size_t i = 12; i > 4; --i, number >>= 8) text[i - 1] = static_cast<char>(number & 0xFF);
  if (text[0] == '\0') text[0] = '\x80';
  return text;
}

inline const std::string kPosix(
    "ustar\0"
    "00",
    8),
    kGnu("ustar  \0", 8), kOld(8, '\0');

struct Header {
  std::string name;
  std::string size = octal(0);  // the field's characters
  char type = '0';
  std::string magic = kPosix;
  std::string prefix = {};
  int32_t add_to_checksum = 0;
  bool signed_checksum = false;

  std::string bytes() const {
    std::string block(512, '\0');
    const auto put = [&](size_t at, const std::string& text) {
      std::copy(text.begin(), text.end(), block.begin() + static_cast<int>(at));
    };
    put(0, name.substr(0, 100));
    put(100, "0000644");
    put(124, size);
    put(136, octal(0));
    put(148, "        ");
    block[156] = type;
    put(257, magic);
    put(345, prefix);
    int64_t sum = add_to_checksum;
    for (const char c : block) sum += signed_checksum ? static_cast<int8_t>(c) : static_cast<uint8_t>(c);
    put(148, octal(sum, 6) + std::string("\0 ", 2));
    return block;
  }
};

inline std::string padded(std::string content) {
  content.resize((content.size() + 511) / 512 * 512, '\0');
  return content;
}

inline std::string entry(const std::string& name, const std::string& content, char type = '0',
                         const std::string& magic = kPosix) {
  return Header{
             .name = name, .size = octal(static_cast<int64_t>(content.size())), .type = type, .magic = magic}
             .bytes() +
         padded(content);
}

inline std::string record(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

inline std::string pax(const std::string& records, char type = 'x') {
  return entry("PaxHeaders/x", records, type);
}
inline std::string gnu_long(const std::string& name, char type = 'L') {
  return entry("././@LongLink", name + std::string(1, '\0'), type, kGnu);
}
inline const std::string kEnd(1024, '\0');

inline std::string gzip(const std::string& content) {
  z_stream zlib{};
  deflateInit2(&zlib, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&zlib, content.size()) + 64, '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  zlib.avail_in = static_cast<uInt>(content.size());
  zlib.next_out = reinterpret_cast<Bytef*>(packed.data());
  zlib.avail_out = static_cast<uInt>(packed.size());
  deflate(&zlib, Z_FINISH);
  packed.resize(zlib.total_out);
  deflateEnd(&zlib);
  return packed;
}

// With a checksum of the content, as the zstd program writes it.
inline std::string zstd(const std::string& content) {
  const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string packed(ZSTD_compressBound(content.size()), '\0');
  packed.resize(ZSTD_compress2(context.get(), packed.data(), packed.size(), content.data(), content.size()));
  return packed;
}

// In pieces of `bytes`, a member or frame each.
inline std::string in_pieces(const std::string& content, size_t bytes,
                             std::string (*pack)(const std::string&)) {
  std::string result;
  for (size_t at = 0; at < content.size(); at += bytes) result += pack(content.substr(at, bytes));
  return result;
}

// Content that no two places have in common.
inline std::string noise(size_t bytes, uint64_t seed = 1) {
  std::string content(bytes, '\0');
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (char& c : content) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(state >> 56);
  }
  return content;
}

}  // namespace millrace::tar_bytes
