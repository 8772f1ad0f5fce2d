#include "sources/tar_index.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "io/read_file.h"
#include "io/saved_file.h"
#include "millrace/error.h"
#include "sources/shard_reader.h"

namespace millrace::sources {
namespace {

constexpr std::string_view kMark = "millrace tar index 2\n", kWithoutMark = "millrace tar index 1\n";
static_assert(kMark.size() == kWithoutMark.size());

// As Python's int() reads it, but for underscores and digits of other scripts: these stay files without a
// number.
int64_t as_number(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return TarIndex::kNoNumber;
  text = text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
  if (text.front() == '+' && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : TarIndex::kNoNumber;
}

void put(std::vector<uint8_t>& to, const void* data, size_t bytes) {
  const auto* from = static_cast<const uint8_t*>(data);
  to.insert(to.end(), from, from + bytes);
}
void put(std::vector<uint8_t>& to, int64_t number) { put(to, &number, sizeof number); }
void put(std::vector<uint8_t>& to, std::string_view text) {
  put(to, static_cast<int64_t>(text.size()));
  put(to, text.data(), text.size());
}

// Takes what put() wrote; anything that does not fit is damage.
class Decoder {
 public:
  Decoder(std::span<const uint8_t> bytes, const std::string& path) : left_(bytes), path_(path) {}

  [[noreturn]] void fail() const {
    throw Error(
        ErrorKind::corrupt_data,
        path_ + " is no tar index of this version of millrace, or damaged; remove it, and it is made anew",
        path_);
  }
  void keep(std::span<const uint8_t> bytes) { left_ = bytes; }
  std::span<const uint8_t> take(size_t bytes) {
    if (bytes > left_.size()) fail();
    const auto taken = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return taken;
  }
  int64_t number(int64_t least, int64_t most) {
    int64_t value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    if (value < least || value > most) fail();
    return value;
  }
  int64_t count(size_t bytes_each) { return number(0, static_cast<int64_t>(left_.size() / bytes_each)); }
  std::string_view text() {
    const auto bytes = take(static_cast<size_t>(count(1)));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  bool empty() const { return left_.empty(); }

 private:
  std::span<const uint8_t> left_;
  const std::string& path_;
};

}  // namespace

TarIndex TarIndex::build(const std::shared_ptr<const io::ByteSource>& shard) {
  ShardReader reader(shard);
  if (reader.packed())
    throw Error(ErrorKind::unavailable,
                shard->name() +
                    " is packed, so its samples can only be read one after the other; unpack it, or "
                    "read it as a stream",
                shard->name());
  TarIndex index;
  index.shard_bytes_ = shard->size();
  std::unordered_map<std::string, uint32_t> suffixes;
  std::string key;
  ShardFile file;
  while (reader.next(file)) {
    if (index.ends_.empty() || file.key != key) {
      key = file.key;
      index.keys_.append(key);
      index.ends_.push_back(static_cast<int64_t>(index.files_.size()));
    }
    const auto known = suffixes.emplace(file.suffix, static_cast<uint32_t>(index.suffixes_.size()));
    if (known.second) index.suffixes_.push_back(file.suffix);
    const uint32_t suffix = known.first->second;
    const auto others = index.files(index.size() - 1);
    if (std::any_of(others.begin(), others.end(), [&](const File& other) { return other.suffix == suffix; }))
      throw Error(ErrorKind::corrupt_data,
                  shard->name() + ": '" + file.entry.name + "' is there twice in sample '" + key +
                      "', the second time at byte " + std::to_string(file.entry.header) +
                      "; give its files names of their own",
                  shard->name(), file.entry.header);
    File place{suffix, file.entry.offset, file.entry.size, kNoNumber};
    if (place.size > 0 && place.size <= kMostNumberBytes) {
      std::array<char, kMostNumberBytes> text;
      reader.read({reinterpret_cast<uint8_t*>(text.data()), static_cast<size_t>(place.size)});
      place.number = as_number({text.data(), static_cast<size_t>(place.size)});
    }
    index.files_.push_back(place);
    index.ends_.back() = static_cast<int64_t>(index.files_.size());
  }
  if (shard->is_here()) index.mark_ = content_mark(*shard);
  return index;
}

std::span<const TarIndex::File> TarIndex::files(int64_t sample) const {
  if (sample < 0 || sample >= size())
    throw Error(ErrorKind::out_of_range,
                "sample " + std::to_string(sample) + " is not one of the shard's " + std::to_string(size()));
  const auto i = static_cast<size_t>(sample);
  const int64_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::span(files_).subspan(static_cast<size_t>(begin), static_cast<size_t>(ends_[i] - begin));
}

const TarIndex::File* TarIndex::find(int64_t sample, std::span<const std::string> wanted) const {
  const auto there = files(sample);
  for (const std::string& suffix : wanted)
    for (const File& file : there)
      if (suffixes_[file.suffix] == suffix) return &file;
  return nullptr;
}

std::vector<uint8_t> TarIndex::encode(uint64_t mark) const {
  std::vector<uint8_t> bytes;
  bytes.reserve(64 + keys_.memory_bytes() + static_cast<size_t>(size()) * 16 + files_.size() * 32);
  put(bytes, kMark.data(), kMark.size());
  put(bytes, shard_bytes_);
  put(bytes, static_cast<int64_t>(mark));
  put(bytes, static_cast<int64_t>(suffixes_.size()));
  for (const std::string& suffix : suffixes_) put(bytes, suffix);
  put(bytes, size());
  for (int64_t sample = 0; sample < size(); ++sample) {
    put(bytes, std::string_view(keys_.tail(static_cast<size_t>(sample))));
    const auto there = files(sample);
    put(bytes, static_cast<int64_t>(there.size()));
    for (const File& file : there)
      for (const int64_t number : {int64_t{file.suffix}, file.offset, file.size, file.number})
        put(bytes, number);
  }
  const uint64_t sum = io::checksum(bytes);
  put(bytes, &sum, sizeof sum);
  return bytes;
}

void TarIndex::save(const std::string& path, uint64_t mark) const {
  const std::vector<uint8_t> bytes = encode(mark != 0 ? mark : mark_);
  io::save_file(path, std::vector<std::span<const uint8_t>>{bytes});
}

TarIndex TarIndex::load(const std::string& path) {
  io::FileBuffer file;
  io::read_file(path, file);
  const std::span<const uint8_t> all = file.bytes();
  Decoder decoder(all, path);
  if (all.size() < kMark.size() + sizeof(uint64_t)) decoder.fail();
  const auto body = all.first(all.size() - sizeof(uint64_t));
  uint64_t sum;
  std::memcpy(&sum, all.data() + body.size(), sizeof sum);
  const std::string_view magic(reinterpret_cast<const char*>(all.data()), kMark.size());
  if ((magic != kMark && magic != kWithoutMark) || sum != io::checksum(body)) decoder.fail();

  decoder.keep(body.subspan(kMark.size()));
  TarIndex index;
  index.shard_bytes_ = decoder.number(0, INT64_MAX);
  if (magic == kMark) index.mark_ = static_cast<uint64_t>(decoder.number(INT64_MIN, INT64_MAX));
  for (int64_t i = decoder.count(8); i > 0; --i) index.suffixes_.emplace_back(decoder.text());
  const int64_t suffixes = static_cast<int64_t>(index.suffixes_.size());
  for (int64_t samples = decoder.count(16); samples > 0; --samples) {
    index.keys_.append(decoder.text());
    for (int64_t files = decoder.count(32); files > 0; --files) {
      File place;
      place.suffix = static_cast<uint32_t>(decoder.number(0, suffixes - 1));
      place.offset = decoder.number(0, index.shard_bytes_);
      place.size = decoder.number(0, index.shard_bytes_ - place.offset);
      place.number = decoder.number(INT64_MIN, INT64_MAX);
      index.files_.push_back(place);
    }
    index.ends_.push_back(static_cast<int64_t>(index.files_.size()));
  }
  if (!decoder.empty()) decoder.fail();
  return index;
}

}  // namespace millrace::sources
