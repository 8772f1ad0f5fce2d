// What fuzz targets that read from a source share: the input as one, and the end of the process when
// something is wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "io/byte_source.h"

namespace millrace {

inline void check(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::abort();
}

// Borrows the bytes.
class FuzzInput final : public io::ByteSource {
 public:
  explicit FuzzInput(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  void read_at(int64_t offset, std::span<uint8_t> into) const override {
    check(offset >= 0 && offset <= size() && static_cast<int64_t>(into.size()) <= size() - offset,
          "a read outside the source");
    std::copy_n(bytes_.begin() + offset, into.size(), into.begin());
  }

 private:
  const std::span<const uint8_t> bytes_;
  const std::string name_ = "input";
};

}  // namespace millrace
