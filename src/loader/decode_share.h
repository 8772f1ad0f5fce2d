// DecodeShare: which pictures worker threads leave to a device's decoder, and the account of those that wait
// for it.
//
// The pictures that wait are bounded in bytes, twice by `most_bytes`: decoded, on the device; and as files,
// in the memory of the host, with the buffers that are kept for the next ones. With `balances`, a share of
// the pictures is left that keeps both sides busy: if a thread takes `c` for a picture that it makes and `l`
// for one that it leaves, and the device `d` to decode one and `r` for each row of the batch besides
// (copying, augmenting), then of each batch
//   share = (c - threads x r) / (threads x d + c - l)
// makes both end at the same time, the device a little before. All are measured as they go, so whatever else
// slows a side down counts too; until the device was measured, a few pictures at a time try it. Without
// `balances`, everything that fits is left. Any thread (one lock, held for some additions per picture).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "device/fused_augment.h"
#include "io/read_file.h"
#include "loader/batch_task.h"

namespace millrace::loader {

inline constexpr size_t kDecodedAlignment = 256;  // of a picture that a device has decoded

class DecodeShare {
 public:
  DecodeShare(bool balances, int threads, size_t most_bytes)
      : balances_(balances), threads_(threads), most_bytes_(most_bytes) {}

  // What a picture takes while it waits.
  struct Bytes {
    size_t decoded;
    size_t file;  // of memory, which may be more than the file's length
  };

  // Whether a picture is left to the device; then give_back() of the same follows.
  bool take(Bytes bytes);
  void give_back(Bytes bytes, io::FileBuffer file);
  io::FileBuffer spare_buffer();  // one that came back, for the next file

  void worker_took(int64_t ns, bool left);
  void device_took(int64_t decode_ns, int64_t pictures, int64_t rest_ns, int64_t rows);  // for a batch

  double share() const;  // of the pictures, at this moment
  int64_t waiting() const;
  int64_t left() const;       // pictures so far
  size_t file_bytes() const;  // that wait or are spare

 private:
  double share_now() const;
  void drop_spare(size_t most_bytes, std::vector<io::FileBuffer>& dropped);

  const bool balances_;
  const int threads_;
  const size_t most_bytes_;
  mutable std::mutex mutex_;  // guards what follows
  Bytes bytes_{};             // of pictures that wait
  size_t spare_bytes_ = 0;
  int64_t waiting_ = 0, left_ = 0;
  double due_ = 0;  // pictures that the share owes the device
  double made_ns_ = 0, left_ns_ = 0, device_ns_ = 0,
         rest_ns_ = 0;                 // of one picture, recent ones most; 0: not measured yet
  std::vector<io::FileBuffer> spare_;  // the one that came back last is at the end
};

// A JPEG that was left to the device, with the work to be done there. Gives its place back when it ends.
struct LeftPicture final : RowAside {
  LeftPicture(std::shared_ptr<DecodeShare> of, DecodeShare::Bytes takes)
      : share(std::move(of)), bytes(takes) {}
  ~LeftPicture() override { share->give_back(bytes, std::move(file)); }

  const std::shared_ptr<DecodeShare>
      share;  // outlives its loader with the pictures that a device still reads
  const DecodeShare::Bytes bytes;
  io::FileBuffer file;
  base::Rect region;                        // of the stored picture, to be decoded
  std::vector<device::Augmentation> views;  // of the region, one for each
};

}  // namespace millrace::loader
