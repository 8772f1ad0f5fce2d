#include "sources/line_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "io/byte_stream.h"
#include "io/saved_file.h"
#include "millrace/error.h"

namespace millrace::sources {
namespace {

constexpr std::string_view kMagic =
    "millrace line index 2  \n";  // a multiple of 8 long, as checksum() asks for
static_assert(kMagic.size() % 8 == 0);
constexpr size_t kChunk = 512 << 10;  // stays in the second cache between the read and the search

template <class T>
std::span<const uint8_t> bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

[[noreturn]] void fail_loading(const std::string& path) {
  throw Error(
      ErrorKind::corrupt_data,
      path + " is no line index of this version of millrace, or damaged; remove it, and it is made anew",
      path);
}

}  // namespace

int64_t LineIndex::begin_of(int64_t line) const {
  const auto turns = std::upper_bound(turns_.begin(), turns_.end(), line) - turns_.begin();
  return (static_cast<int64_t>(turns) << 32) + low_[static_cast<size_t>(line)];
}

LineIndex::Range LineIndex::range(int64_t line) const {
  return {begin_of(line), line + 1 < size() ? begin_of(line + 1) : source_bytes_};
}

void LineIndex::add(int64_t begin) {
  while (begin >> 32 > static_cast<int64_t>(turns_.size())) turns_.push_back(size());
  low_.push_back(static_cast<uint32_t>(begin));
}

int64_t LineIndex::lines_before(const io::ByteSource& source, int64_t offset) {
  const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(kChunk);
  int64_t lines = 0;
  for (int64_t position = 0; position < offset;) {
    const auto bytes = static_cast<size_t>(std::min<int64_t>(offset - position, kChunk));
    source.read_at(position, {buffer.get(), bytes});
    lines += std::count(buffer.get(), buffer.get() + bytes, '\n');
    position += static_cast<int64_t>(bytes);
  }
  return lines;
}

void LineIndex::save(const std::string& path, uint64_t mark) const {
  const std::vector<int64_t> facts{source_bytes_, keeps_blank_ ? 1 : 0, static_cast<int64_t>(turns_.size()),
                                   size(), static_cast<int64_t>(mark)};
  uint64_t sum = io::checksum(bytes_of(kMagic));
  for (const auto& part : {bytes_of(facts), bytes_of(turns_), bytes_of(low_)}) sum = io::checksum(part, sum);
  const std::vector<uint64_t> sums{sum};
  io::save_file(
      path, std::vector{bytes_of(kMagic), bytes_of(facts), bytes_of(turns_), bytes_of(low_), bytes_of(sums)});
}

LineIndex LineIndex::load(const std::string& path) {
  const auto file = io::open_local_file(path);
  std::array<uint8_t, kMagic.size()> magic;
  std::array<int64_t, 5> facts;
  constexpr size_t kHead = sizeof magic + sizeof facts;
  if (file->size() < static_cast<int64_t>(kHead + sizeof(uint64_t))) fail_loading(path);
  file->read_at(0, magic);
  file->read_at(sizeof magic, {reinterpret_cast<uint8_t*>(facts.data()), sizeof facts});
  const int64_t left = file->size() - static_cast<int64_t>(kHead + sizeof(uint64_t));
  const auto [source_bytes, keeps_blank, turns, lines, mark] = facts;
  const bool fits = source_bytes >= 0 && (keeps_blank | 1) == 1 && turns >= 0 && turns <= left / 8 &&
                    lines >= 0 && lines <= source_bytes && turns * 8 + lines * 4 == left;
  if (std::memcmp(magic.data(), kMagic.data(), magic.size()) != 0 || !fits) fail_loading(path);

  LineIndex index;
  index.source_bytes_ = source_bytes;
  index.keeps_blank_ = keeps_blank == 1;
  index.mark_ = static_cast<uint64_t>(mark);
  index.turns_.resize(static_cast<size_t>(turns));
  index.low_.resize(static_cast<size_t>(lines));
  uint64_t sum = 0;
  auto read = [&, at = static_cast<int64_t>(kHead)](void* into, size_t bytes) mutable {
    file->read_at(at, {static_cast<uint8_t*>(into), bytes});
    at += static_cast<int64_t>(bytes);
  };
  read(index.turns_.data(), index.turns_.size() * sizeof(int64_t));
  read(index.low_.data(), index.low_.size() * sizeof(uint32_t));
  read(&sum, sizeof sum);
  uint64_t expected = io::checksum(magic);
  expected = io::checksum({reinterpret_cast<const uint8_t*>(facts.data()), sizeof facts}, expected);
  for (const auto& part : {bytes_of(index.turns_), bytes_of(index.low_)})
    expected = io::checksum(part, expected);
  if (sum != expected || !std::is_sorted(index.turns_.begin(), index.turns_.end())) fail_loading(path);
  if (!index.turns_.empty() && (index.turns_.front() < 0 || index.turns_.back() > lines)) fail_loading(path);
  // Ranges must lie in the file and follow each other, whichever program wrote the index.
  int64_t before = -1, turn = 0;
  for (int64_t line = 0; line < lines; ++line) {
    while (turn < turns && index.turns_[static_cast<size_t>(turn)] <= line) ++turn;
    const int64_t begin = (turn << 32) + index.low_[static_cast<size_t>(line)];
    if (begin <= before || begin >= source_bytes) fail_loading(path);
    before = begin;
  }
  return index;
}

LineIndexBuilder::LineIndexBuilder(std::shared_ptr<const io::ByteSource> source, bool keep_blank)
    : source_(std::move(source)) {
  if (io::open_stream(source_)->packed())
    throw Error(ErrorKind::unavailable,
                source_->name() +
                    " is packed, so its lines can only be read one after the other; unpack it, or "
                    "read it as a stream",
                source_->name());
  index_.source_bytes_ = source_->size();
  index_.keeps_blank_ = keep_blank;
  std::array<uint8_t, 3> first{};
  source_->read_at(0, {first.data(), static_cast<size_t>(std::min<int64_t>(source_->size(), 3))});
  if ((first[0] == 0xFF && first[1] == 0xFE) || (first[0] == 0xFE && first[1] == 0xFF))
    throw Error(ErrorKind::corrupt_data,
                source_->name() + " begins with the byte order mark of UTF-16; convert it to UTF-8",
                source_->name(), 0);
  if (first == std::array<uint8_t, 3>{0xEF, 0xBB, 0xBF}) position_ = line_begin_ = 3;
}

bool LineIndexBuilder::step(int64_t bytes) {
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<uint8_t[]>(kChunk);
  const int64_t end = std::min(index_.source_bytes_, position_ + std::min(bytes, index_.source_bytes_));
  while (position_ < end) {
    const auto chunk = static_cast<size_t>(std::min<int64_t>(end - position_, kChunk));
    source_->read_at(position_, {buffer_.get(), chunk});
    scan(buffer_.get(), chunk);
    position_ += static_cast<int64_t>(chunk);
  }
  return position_ < index_.source_bytes_;
}

void LineIndexBuilder::scan(const uint8_t* data, size_t bytes) {
  const uint8_t* const end = data + bytes;
  const auto offset_of = [&](const uint8_t* at) { return position_ + (at - data); };
  for (const uint8_t* at = data; at < end;) {
    if (!listed_) {
      if (!index_.keeps_blank_)
        while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) ++at;
      if (at == end) return;
      if (index_.keeps_blank_ || *at != '\n') {
        index_.add(line_begin_);
        listed_ = true;
      }
    }
    const auto* newline = static_cast<const uint8_t*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
    if (newline == nullptr) return;
    at = newline + 1;
    line_begin_ = offset_of(at);
    listed_ = false;
  }
}

LineIndex LineIndexBuilder::finish() {
  index_.low_.shrink_to_fit();
  return std::move(index_);
}

}  // namespace millrace::sources
