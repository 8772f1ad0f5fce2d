// Fuzz target for tar archives: every file of the input read, plain or packed, and the index of a plain one
// compared with that.
//
// The input is tried as it is, and once more with the checksums of its headers put right, without which no
// damage would come any further. Anything but files inside the archive, Error(corrupt_data) or
// Error(unavailable) is a bug: the process aborts.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "millrace/error.h"
#include "sources/shard_reader.h"
#include "sources/tar_index.h"

namespace {

using namespace millrace;

constexpr int64_t kMostUnpacked = 4 << 20;  // more costs time and shows nothing more

void expect(const Error& error) {
  if (error.kind() == ErrorKind::corrupt_data || error.kind() == ErrorKind::unavailable) return;
  std::fprintf(stderr, "unexpected error: %s\n", error.what());
  std::abort();
}

struct Found {
  std::string key, suffix;
  int64_t offset, size;
};

// All files; nothing where an error came.
std::optional<std::vector<Found>> walk(const std::shared_ptr<const io::ByteSource>& source, bool& packed) {
  std::vector<Found> found;
  std::vector<uint8_t> content, again;
  try {
    sources::ShardReader reader(source);
    packed = reader.packed();
    for (sources::ShardFile file; reader.next(file);) {
      const int64_t size = file.entry.size;
      check(size >= 0 && size <= sources::kMostEntryBytes && file.entry.offset >= file.entry.header + 512,
            "an entry's place");
      check(packed || file.entry.offset <= source->size() - size, "an entry behind the end");
      if (file.entry.offset + size > kMostUnpacked) return std::nullopt;
      content.resize(static_cast<size_t>(size));
      reader.read(content);
      if (!packed) {
        again.resize(content.size());
        source->read_at(file.entry.offset, again);
        check(again == content, "content");
      }
      found.push_back({file.key, file.suffix, file.entry.offset, size});
    }
  } catch (const Error& error) {
    expect(error);
    return std::nullopt;
  }
  return found;
}

void try_archive(std::span<const uint8_t> bytes) {
  const auto source = std::make_shared<FuzzInput>(bytes);
  bool packed = false;
  const auto found = walk(source, packed);
  if (packed) return;
  try {
    const sources::TarIndex index = sources::TarIndex::build(source);
    check(found.has_value(), "an index of an archive that cannot be read");
    size_t number = 0;
    for (int64_t sample = 0; sample < index.size(); ++sample)
      for (const sources::TarIndex::File& file : index.files(sample)) {
        check(number < found->size(), "more files in the index");
        const Found& same = (*found)[number++];
        check(same.key == index.key(sample) && same.suffix == index.suffixes()[file.suffix] &&
                  same.offset == file.offset && same.size == file.size,
              "a file in the index");
      }
    check(number == found->size(), "fewer files in the index");
  } catch (const Error& error) {
    expect(error);
  }
}

void put_checksums_right(std::vector<uint8_t>& tar) {
  for (size_t at = 0; at + 512 <= tar.size(); at += 512) {
    uint8_t* block = tar.data() + at;
    if (std::all_of(block, block + 512, [](uint8_t byte) { return byte == 0; })) continue;
    std::fill(block + 148, block + 156, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += block[i];
    for (size_t i = 6; i > 0; --i, sum >>= 3) block[147 + i] = static_cast<uint8_t>('0' + (sum & 7));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try_archive({data, size});
  std::vector<uint8_t> mended(data, data + size);
  put_checksums_right(mended);
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[size]);
  std::copy(mended.begin(), mended.end(), exact.get());
  try_archive({exact.get(), size});
  return 0;
}
