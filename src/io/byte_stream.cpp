// The stream over a source as it is, and the choice of the unpacker.
#include "io/byte_stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "io/unpackers.h"
#include "millrace/error.h"

namespace millrace::io {
namespace {

constexpr size_t kLeastBuffer = 4 << 10, kMostBuffer = 256 << 10;
constexpr size_t kDirect = 16 << 10;  // reads of at least this length bypass the buffer

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(std::shared_ptr<const ByteSource> source) : source_(std::move(source)) {}

  size_t read(std::span<uint8_t> into) override {
    size_t done = take(into);
    while (done < into.size()) {
      const auto left = static_cast<size_t>(source_->size() - position_);
      const size_t wanted = std::min(into.size() - done, left);
      if (wanted == 0) break;
      if (wanted >= kDirect) {
        source_->read_at(position_, into.subspan(done, wanted));
        position_ += static_cast<int64_t>(wanted);
        done += wanted;
        next_fill_ = kLeastBuffer;
        return done;
      }
      fill(left);
      done += take(into.subspan(done));
    }
    return done;
  }

  int64_t skip(int64_t bytes) override {
    const int64_t got = std::min(bytes, source_->size() - position_);
    position_ += got;
    const auto in_buffer = static_cast<size_t>(std::min<int64_t>(got, static_cast<int64_t>(buffered())));
    begin_ += in_buffer;
    if (static_cast<int64_t>(in_buffer) < got) next_fill_ = kLeastBuffer;
    return got;
  }

  int64_t position() const override { return position_; }
  size_t buffered() const override { return end_ - begin_; }
  int64_t most_left() const override { return source_->size() - position_; }
  bool packed() const override { return false; }

 private:
  size_t take(std::span<uint8_t> into) {
    const size_t bytes = std::min(into.size(), buffered());
    if (bytes > 0) std::memcpy(into.data(), buffer_.get() + begin_, bytes);
    begin_ += bytes;
    position_ += static_cast<int64_t>(bytes);
    return bytes;
  }

  // Large payloads are read directly, so after one of them only its padding and the next header are wanted.
  void fill(size_t left) {
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<uint8_t[]>(kMostBuffer);
    const size_t bytes = std::min(next_fill_, left);
    begin_ = end_ = 0;
    source_->read_at(position_, {buffer_.get(), bytes});
    end_ = bytes;
    next_fill_ = std::min(next_fill_ * 2, kMostBuffer);
  }

  const std::shared_ptr<const ByteSource> source_;
  std::unique_ptr<uint8_t[]> buffer_;
  size_t begin_ = 0, end_ = 0, next_fill_ = kLeastBuffer;
  int64_t position_ = 0;
};

// What an unpacker gives, through a buffer: its output comes in pieces of its own size.
class UnpackedStream final : public ByteStream {
 public:
  explicit UnpackedStream(std::unique_ptr<Unpacker> unpacker) : unpacker_(std::move(unpacker)) {}

  size_t read(std::span<uint8_t> into) override {
    size_t done = 0;
    for (;;) {
      const size_t bytes = std::min(into.size() - done, buffered());
      if (bytes > 0) std::memcpy(into.data() + done, buffer_.get() + begin_, bytes);
      begin_ += bytes;
      done += bytes;
      if (done == into.size()) break;
      if (into.size() - done >= kMostBuffer) {
        const size_t got = unpacker_->unpack(into.subspan(done));
        if (got == 0) break;
        done += got;
      } else if (!fill()) {
        break;
      }
    }
    position_ += static_cast<int64_t>(done);
    return done;
  }

  int64_t skip(int64_t bytes) override {
    int64_t done = 0;
    while (done < bytes) {
      const auto step =
          static_cast<size_t>(std::min<int64_t>(bytes - done, static_cast<int64_t>(buffered())));
      begin_ += step;
      done += static_cast<int64_t>(step);
      if (done < bytes && !fill()) break;
    }
    position_ += done;
    return done;
  }

  int64_t position() const override { return position_; }
  size_t buffered() const override { return end_ - begin_; }
  int64_t most_left() const override { return std::numeric_limits<int64_t>::max(); }
  bool packed() const override { return true; }

 private:
  bool fill() {
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<uint8_t[]>(kMostBuffer);
    begin_ = end_ = 0;
    end_ = unpacker_->unpack({buffer_.get(), kMostBuffer});
    return end_ > 0;
  }

  const std::unique_ptr<Unpacker> unpacker_;
  std::unique_ptr<uint8_t[]> buffer_;
  size_t begin_ = 0, end_ = 0;
  int64_t position_ = 0;
};

constexpr std::initializer_list<uint8_t> kGzip = {0x1F, 0x8B}, kZstd = {0x28, 0xB5, 0x2F, 0xFD};

bool starts_with(std::span<const uint8_t> bytes, std::initializer_list<uint8_t> magic) {
  return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

// Whether a file of that name ends inside the mark that it begins with; without its name it might be text.
bool ends_in(std::span<const uint8_t> bytes, std::initializer_list<uint8_t> magic, std::string_view name,
             std::string_view ending) {
  return !bytes.empty() && bytes.size() < magic.size() && name.ends_with(ending) &&
         std::equal(bytes.begin(), bytes.end(), magic.begin());
}

}  // namespace

std::unique_ptr<ByteStream> open_stream(std::shared_ptr<const ByteSource> source) {
  std::array<uint8_t, 6> first{};
  const std::span<uint8_t> seen(first.data(),
                                static_cast<size_t>(std::min<int64_t>(source->size(), first.size())));
  source->read_at(0, seen);
  if (ends_in(seen, kGzip, source->name(), ".gz") || ends_in(seen, kZstd, source->name(), ".zst"))
    throw Error(ErrorKind::corrupt_data,
                source->name() + ": the packed content ends in its middle, before byte " +
                    std::to_string(seen.size()) + "; it was cut short or damaged, copy it again",
                source->name(), static_cast<int64_t>(seen.size()));
  if (starts_with(seen, kGzip))
    return std::make_unique<UnpackedStream>(make_gzip_unpacker(std::move(source)));
  const bool skippable = (first[0] & 0xF0) == 0x50 &&
                         starts_with(seen.subspan(std::min<size_t>(1, seen.size())), {0x2A, 0x4D, 0x18});
  if (starts_with(seen, kZstd) || skippable)  // pzstd begins with a frame that holds nothing
    return std::make_unique<UnpackedStream>(make_zstd_unpacker(std::move(source)));
  const bool bzip2 = starts_with(seen, {'B', 'Z', 'h'}),
             xz = starts_with(seen, {0xFD, '7', 'z', 'X', 'Z', 0});
  if (bzip2 || xz)
    throw Error(ErrorKind::unavailable,
                source->name() + " is packed by " + (bzip2 ? "bzip2" : "xz") +
                    ", which is not read; unpack it, or pack it by zstd or gzip",
                source->name());
  return std::make_unique<PlainStream>(std::move(source));
}

}  // namespace millrace::io
