#include "sources/line_files.h"

#include <algorithm>
#include <string>
#include <utility>

#include "millrace/error.h"

namespace millrace::sources {
namespace {

constexpr int64_t kGap = 2 << 10;           // reading so many bytes for nothing costs less than another call
constexpr int64_t kMostCounted = 64 << 20;  // so many bytes are read for a line's number in a message
constexpr int64_t kMostRead = 8 << 20;      // so that one read's buffer does not double a batch's memory

[[noreturn]] void fail_changed(const io::ByteSource& source, int64_t offset) {
  const bool counts = offset <= kMostCounted;
  const std::string line =
      counts ? ", line " + std::to_string(LineIndex::lines_before(source, offset) + 1) : ", a line";
  throw Error(
      ErrorKind::corrupt_data,
      source.name() + line + " (byte " + std::to_string(offset) +
          "): it does not end where it did when the file was indexed; the file was changed after it was "
          "opened: open the dataset anew",
      source.name(), offset);
}

}  // namespace

LineFiles::LineFiles(std::vector<std::shared_ptr<const io::ByteSource>> sources,
                     std::vector<std::shared_ptr<const LineIndex>> indexes, int64_t most_line_bytes)
    : sources_(std::move(sources)), indexes_(std::move(indexes)), most_line_bytes_(most_line_bytes) {
  int64_t lines = 0;
  for (const auto& index : indexes_) ends_.push_back(lines += index->size());
}

LineFiles::Place LineFiles::place(int64_t line) const {
  if (line < 0 || line >= size())
    throw Error(ErrorKind::out_of_range,
                "line " + std::to_string(line) + " is not one of " + std::to_string(size()));
  const auto file = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), line) - ends_.begin());
  return {file, indexes_[file]->range(line - (file == 0 ? 0 : ends_[file - 1]))};
}

void LineFiles::read(std::span<const int64_t> lines, LineBatch& batch) const {
  auto& wanted = batch.wanted_;
  wanted.clear();
  batch.lines.assign(lines.size(), {});
  for (size_t row = 0; row < lines.size(); ++row) {
    const Place at = place(lines[row]);
    batch.lines[row].bytes = static_cast<size_t>(at.range.end - at.range.begin);
    if (at.range.end - at.range.begin <= most_line_bytes_) wanted.push_back({at.file, at.range, row});
  }
  std::sort(wanted.begin(), wanted.end(), [](const auto& a, const auto& b) {
    return std::pair(a.file, a.range.begin) < std::pair(b.file, b.range.begin);
  });

  // One read per run of lines. Where each run goes is known before the first of them is read, as the buffer
  // must not move.
  const auto run_end = [&](size_t first) {
    const int64_t begin = wanted[first].range.begin;
    int64_t end = wanted[first].range.end;
    size_t next = first + 1;
    for (; next < wanted.size() && wanted[next].file == wanted[first].file; ++next) {
      const LineIndex::Range& range = wanted[next].range;
      if (range.begin > end + kGap || (range.end > end && range.end - begin > kMostRead)) break;
      end = range.end;
    }
    return next;
  };
  size_t total = kLinePadding;
  for (size_t first = 0; first < wanted.size();) {
    const size_t end = run_end(first);
    total += static_cast<size_t>(wanted[end - 1].range.end - wanted[first].range.begin);
    first = end;
  }
  if (total > batch.capacity_) {
    batch.buffer_.reset();
    batch.buffer_ = std::make_unique_for_overwrite<uint8_t[]>(total);
    batch.capacity_ = total;
  }
  uint8_t* into = batch.buffer_.get();
  for (size_t first = 0; first < wanted.size();) {
    const size_t end = run_end(first);
    const int64_t begin = wanted[first].range.begin;
    const auto bytes = static_cast<size_t>(wanted[end - 1].range.end - begin);
    sources_[wanted[first].file]->read_at(begin, {into, bytes});
    for (size_t i = first; i < end; ++i) {
      const auto& [file, range, row] = wanted[i];
      batch.lines[row].data = into + (range.begin - begin);
      if (range.end < indexes_[file]->source_bytes() && into[range.end - begin - 1] != '\n')
        fail_changed(*sources_[file], range.begin);
    }
    into += bytes;
    first = end;
  }
}

void LineFiles::will_read(std::span<const int64_t> lines) const {
  for (const int64_t line : lines) {
    const Place at = place(line);
    if (!sources_[at.file]->is_here())
      sources_[at.file]->will_read(at.range.begin, at.range.end - at.range.begin);
  }
}

}  // namespace millrace::sources
