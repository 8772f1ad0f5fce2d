#include "loader/decode_share.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace millrace::loader {
namespace {

constexpr int64_t kTrials = 4;  // pictures that wait at a time while the device's speed is not known
// The device's times are taken for a tenth longer: a device that never waits lets batches queue up, and with
// them the threads.
constexpr double kSlack = 1.1;

constexpr size_t kMostSpare = 512;

void follow(double& average, double value, double weight) {
  average = average == 0 ? value : average + weight * (value - average);
}

}  // namespace

bool DecodeShare::take(Bytes bytes) {
  std::vector<io::FileBuffer> dropped;  // freed after the lock is let go
  const std::lock_guard lock(mutex_);
  if (bytes.decoded > most_bytes_ - bytes_.decoded || bytes.file > most_bytes_ - bytes_.file) return false;
  if (balances_ && device_ns_ == 0) {
    if (waiting_ >= kTrials) return false;
  } else if (balances_) {
    due_ = std::min(due_ + share_now(), 2.0);  // what could not be left in time is not made up for
    if (due_ < 1) return false;
    due_ -= 1;
  }
  bytes_.decoded += bytes.decoded;
  bytes_.file += bytes.file;
  drop_spare(most_bytes_ - bytes_.file, dropped);
  ++waiting_;
  ++left_;
  return true;
}

void DecodeShare::give_back(Bytes bytes, io::FileBuffer file) {
  std::vector<io::FileBuffer> dropped;
  const std::lock_guard lock(mutex_);
  bytes_.decoded -= bytes.decoded;
  bytes_.file -= bytes.file;
  --waiting_;
  spare_bytes_ += file.capacity();
  spare_.push_back(std::move(file));
  drop_spare(most_bytes_ - bytes_.file, dropped);
}

// Until the spare buffers have `most_bytes` at most; under the lock. The one that was used last is in the
// cache, so the others go first.
void DecodeShare::drop_spare(size_t most_bytes, std::vector<io::FileBuffer>& dropped) {
  size_t gone = 0;
  for (; spare_bytes_ > most_bytes || spare_.size() - gone > kMostSpare; ++gone)
    spare_bytes_ -= spare_[gone].capacity();
  const auto end = spare_.begin() + static_cast<ptrdiff_t>(gone);
  dropped.assign(std::make_move_iterator(spare_.begin()), std::make_move_iterator(end));
  spare_.erase(spare_.begin(), end);
}

io::FileBuffer DecodeShare::spare_buffer() {
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) return {};
  io::FileBuffer buffer = std::move(spare_.back());
  spare_.pop_back();
  spare_bytes_ -= buffer.capacity();
  return buffer;
}

void DecodeShare::worker_took(int64_t ns, bool left) {
  const std::lock_guard lock(mutex_);
  follow(left ? left_ns_ : made_ns_, static_cast<double>(ns), 1.0 / 16);
}

void DecodeShare::device_took(int64_t decode_ns, int64_t pictures, int64_t rest_ns, int64_t rows) {
  const std::lock_guard lock(mutex_);
  const auto each = [](int64_t ns, int64_t count) {
    return std::max(1.0, static_cast<double>(ns) / static_cast<double>(count));
  };
  if (pictures > 0) follow(device_ns_, each(decode_ns, pictures), 1.0 / 4);
  if (rows > 0) follow(rest_ns_, each(rest_ns, rows), 1.0 / 4);
}

double DecodeShare::share_now() const {
  if (!balances_) return 1;
  if (device_ns_ == 0 || made_ns_ == 0) return 0.5;
  const double threads = kSlack * threads_, more = made_ns_ - threads * rest_ns_,
               both = threads * device_ns_ + made_ns_ - left_ns_;
  if (more <= 0) return 0;  // the device has enough to do with the rows that are made
  return both <= more ? 1 : more / both;
}

double DecodeShare::share() const {
  const std::lock_guard lock(mutex_);
  return share_now();
}

int64_t DecodeShare::left() const {
  const std::lock_guard lock(mutex_);
  return left_;
}

size_t DecodeShare::file_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_.file + spare_bytes_;
}

int64_t DecodeShare::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

}  // namespace millrace::loader
