// Fuzz target for chunks of HDF5: whatever the stored bytes are, and through whatever filters, a box of the
// array is read or refused.
//
// Of the input, byte 0 says how many filters (0 to 4), the next ones which; then come the mask, an element's
// size, and the stored bytes of the middle one of three chunks. Anything but a box or Error(corrupt_data) is
// a bug. What was read must be the same twice, and, element by element, the same as in a smaller box.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arrays/chunked_array.h"
#include "fuzz_input.h"
#include "millrace/error.h"

namespace {

using namespace millrace;

constexpr int64_t kRows = 40, kColumns = 6;  // of a chunk; the array has 100 rows

std::optional<std::vector<uint8_t>> read(const arrays::ChunkedArray& array,
                                         const std::vector<arrays::AxisRange>& box) {
  std::vector<uint8_t> out(array.box_bytes(box), 0x11);
  try {
    array.read(box, out);
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::corrupt_data, error.what());
    return std::nullopt;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 8) return 0;
  arrays::ArrayForm form;
  form.element_bytes = size_t{1} << (data[6] & 3);
  form.swap_bytes = std::min<size_t>(form.element_bytes, size_t{1} << (data[6] >> 2 & 3));
  bool deflates = false;
  for (size_t i = 0; i < data[0] % 5; ++i) {
    const uint8_t byte = data[1 + i];
    codecs::ChunkFilter filter{static_cast<codecs::ChunkFilter::Kind>(byte % 3), 1u + (byte >> 2) % 17};
    if (filter.kind == codecs::ChunkFilter::Kind::deflate && deflates)
      filter.kind = codecs::ChunkFilter::Kind::shuffle;
    deflates = deflates || filter.kind == codecs::ChunkFilter::Kind::deflate;
    form.filters.push_back(filter);
  }
  form.shape = {100, kColumns};
  form.chunk = {kRows, kColumns};
  form.fill.assign(form.element_bytes, 0x77);
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[size - 7]);
  std::copy(data + 7, data + size, exact.get());
  const auto source = std::make_shared<FuzzInput>(std::span<const uint8_t>(exact.get(), size - 7));
  const arrays::ChunkedArray array(source, "x", form, {{1, 0, static_cast<int64_t>(size - 7), data[5]}});
  const auto whole = read(array, {{0, 100, 1}, {0, kColumns, 1}});
  check(whole == read(array, {{0, 100, 1}, {0, kColumns, 1}}), "the same box, read twice");
  const auto part = read(array, {{35, 20, 3}, {1, 2, 2}});
  if (!whole) return 0;  // the part may do without the damaged bytes
  check(part.has_value(), "a part of what can be read");
  for (size_t row = 0; row < 20; ++row)
    for (size_t column = 0; column < 2; ++column) {
      const uint8_t* right =
          whole->data() + ((35 + 3 * row) * kColumns + 1 + 2 * column) * form.element_bytes;
      check(
          std::memcmp(part->data() + (row * 2 + column) * form.element_bytes, right, form.element_bytes) == 0,
          "a part's element");
    }
  return 0;
}
