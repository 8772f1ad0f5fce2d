// zlib and libzstd, the only files that see them.
#include "io/unpackers.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "millrace/error.h"

namespace millrace::io {
namespace {

constexpr size_t kPieceBytes = 256 << 10;

class GzipUnpacker final : public Unpacker {
 public:
  explicit GzipUnpacker(std::shared_ptr<const ByteSource> source) : input_(std::move(source)) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&zlib_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipUnpacker() override { inflateEnd(&zlib_); }
  GzipUnpacker(const GzipUnpacker&) = delete;
  GzipUnpacker& operator=(const GzipUnpacker&) = delete;

  size_t unpack(std::span<uint8_t> into) override {
    const auto room = static_cast<uInt>(std::min<size_t>(into.size(), std::numeric_limits<uInt>::max()));
    zlib_.next_out = into.data();
    zlib_.avail_out = room;
    while (zlib_.avail_out == room && !ended_) {
      if (zlib_.avail_in == 0 && !refill()) {
        if (between_members_) return 0;
        fail_unpacking(input_, "the gzip content ends in its middle");
      }
      if (between_members_ && *zlib_.next_in == 0) {  // padding after the last member, as gzip itself allows
        ended_ = true;
        break;
      }
      between_members_ = false;
      const int answer = inflate(&zlib_, Z_NO_FLUSH);
      if (answer == Z_STREAM_END) {
        inflateReset(&zlib_);
        between_members_ = true;
      } else if (answer == Z_MEM_ERROR) {
        throw std::bad_alloc();
      } else if (answer != Z_OK && answer != Z_BUF_ERROR) {
        const std::string detail = zlib_.msg == nullptr ? "" : std::string(" (") + zlib_.msg + ")";
        fail_unpacking(input_, "the gzip content is damaged" + detail);
      }
    }
    return room - zlib_.avail_out;
  }

 private:
  bool refill() {
    const std::span<const uint8_t> piece = input_.next();
    zlib_.next_in = const_cast<uint8_t*>(piece.data());  // zlib reads it only
    zlib_.avail_in = static_cast<uInt>(piece.size());
    return !piece.empty();
  }

  PackedInput input_;
  z_stream zlib_{};
  bool between_members_ = false, ended_ = false;
};

class ZstdUnpacker final : public Unpacker {
 public:
  explicit ZstdUnpacker(std::shared_ptr<const ByteSource> source)
      : input_(std::move(source)), zstd_(ZSTD_createDCtx()) {
    if (!zstd_) throw std::bad_alloc();
  }

  size_t unpack(std::span<uint8_t> into) override {
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    while (out.pos == 0 && !ended_) {
      if (in_.pos == in_.size && !more_to_give_) {
        const std::span<const uint8_t> piece = input_.next();
        if (piece.empty()) {
          if (between_frames_) return 0;
          fail_unpacking(input_, "the zstd content ends in its middle");
        }
        in_ = {piece.data(), piece.size(), 0};
      }
      if (between_frames_ && in_.pos < in_.size &&
          static_cast<const uint8_t*>(in_.src)[in_.pos] == 0) {  // padding, as of gzip's
        ended_ = true;
        break;
      }
      const size_t answer = ZSTD_decompressStream(zstd_.get(), &out, &in_);
      if (ZSTD_isError(answer))
        fail_unpacking(input_,
                       std::string("the zstd content is damaged (") + ZSTD_getErrorName(answer) + ")");
      between_frames_ = answer == 0;
      more_to_give_ = out.pos == out.size && answer != 0;  // zstd keeps what found no room
    }
    return out.pos;
  }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  PackedInput input_;
  const std::unique_ptr<ZSTD_DCtx, Free> zstd_;
  ZSTD_inBuffer in_{};
  bool between_frames_ = false, more_to_give_ = false, ended_ = false;
};

}  // namespace

PackedInput::PackedInput(std::shared_ptr<const ByteSource> source)
    : source_(std::move(source)), buffer_(std::make_unique_for_overwrite<uint8_t[]>(kPieceBytes)) {}

std::span<const uint8_t> PackedInput::next() {
  const std::span<uint8_t> piece(
      buffer_.get(), static_cast<size_t>(std::min<int64_t>(kPieceBytes, source_->size() - position_)));
  source_->read_at(position_, piece);
  position_ += static_cast<int64_t>(piece.size());
  return piece;
}

void fail_unpacking(const PackedInput& input, const std::string& reason) {
  throw Error(ErrorKind::corrupt_data,
              input.name() + ": " + reason + ", before byte " + std::to_string(input.position()) +
                  "; it was cut short or damaged, copy it again",
              input.name(), input.position());
}

std::unique_ptr<Unpacker> make_gzip_unpacker(std::shared_ptr<const ByteSource> source) {
  return std::make_unique<GzipUnpacker>(std::move(source));
}

std::unique_ptr<Unpacker> make_zstd_unpacker(std::shared_ptr<const ByteSource> source) {
  return std::make_unique<ZstdUnpacker>(std::move(source));
}

}  // namespace millrace::io
