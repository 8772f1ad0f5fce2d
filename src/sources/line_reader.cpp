#include "sources/line_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "millrace/error.h"
#include "sources/line_files.h"

namespace millrace::sources {
namespace {

constexpr size_t kBuffer = 256 << 10;

bool is_blank(const uint8_t* data, size_t bytes) {
  return std::all_of(data, data + bytes,
                     [](uint8_t c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
}

}  // namespace

LineReader::LineReader(std::shared_ptr<const io::ByteSource> source, bool keep_blank, int64_t most_line_bytes)
    : stream_(io::open_stream(source)), name_(source->name()), keep_blank_(keep_blank),
      most_line_bytes_(static_cast<size_t>(most_line_bytes)) {
  buffer_.resize(kBuffer + kLinePadding);
  fill();
  constexpr uint8_t kMark[] = {0xEF, 0xBB, 0xBF};
  if (end_ >= 3 && std::equal(kMark, kMark + 3, buffer_.data()))
    offset_ = static_cast<int64_t>(begin_ = searched_ = 3);
  if (end_ >= 2 && ((buffer_[0] == 0xFF && buffer_[1] == 0xFE) || (buffer_[0] == 0xFE && buffer_[1] == 0xFF)))
    throw Error(ErrorKind::corrupt_data,
                name_ + " begins with the byte order mark of UTF-16; convert it to UTF-8", name_, 0);
}

// Moves the bytes that are left to the buffer's beginning and reads more after them; false at the end.
bool LineReader::fill() {
  if (ended_) return false;
  std::copy(buffer_.begin() + static_cast<ptrdiff_t>(begin_), buffer_.begin() + static_cast<ptrdiff_t>(end_),
            buffer_.begin());
  end_ -= begin_;
  searched_ -= begin_;
  begin_ = 0;
  size_t room = buffer_.size() - kLinePadding - end_;
  if (room < kBuffer / 4) {
    buffer_.resize(buffer_.size() * 2);
    room = buffer_.size() - kLinePadding - end_;
  }
  const size_t got = stream_->read({buffer_.data() + end_, room});
  end_ += got;
  ended_ = got < room;
  return got > 0;
}

// Where the line at begin_ ends, or 0 when that is not in the buffer yet.
size_t LineReader::line_end() {
  const auto* newline =
      static_cast<const uint8_t*>(std::memchr(buffer_.data() + searched_, '\n', end_ - searched_));
  if (newline != nullptr) return static_cast<size_t>(newline - buffer_.data()) + 1;
  searched_ = end_;
  return ended_ && begin_ < end_ ? end_ : 0;
}

bool LineReader::next(std::vector<Line>& lines, size_t most) {
  lines.clear();
  while (lines.size() < most) {
    const size_t end = line_end();
    if (end == 0) {
      if (end_ - begin_ > most_line_bytes_) {  // passed over piece by piece, and given once
        if (!std::exchange(too_long_, true)) lines.push_back({nullptr, end_ - begin_, offset_, number_});
        offset_ += static_cast<int64_t>(end_ - begin_);
        begin_ = end_;
      }
      if (!lines.empty() || (!fill() && begin_ == end_)) break;
      continue;
    }
    Line line{buffer_.data() + begin_, end - begin_, offset_, number_};
    begin_ = searched_ = end;
    offset_ += static_cast<int64_t>(line.bytes);
    ++number_;
    if (std::exchange(too_long_, false)) continue;  // the rest of a line that was given
    if (!keep_blank_ && is_blank(line.data, line.bytes)) continue;
    if (line.bytes > most_line_bytes_) line.data = nullptr;
    lines.push_back(line);
  }
  return !lines.empty();
}

}  // namespace millrace::sources
