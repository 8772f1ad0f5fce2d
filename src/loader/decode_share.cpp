#include "loader/decode_share.h"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

constexpr int64_t kTrials = 4;  // pictures that wait at a time while the device's speed is not known
// The device's times are taken for a tenth longer: a device that never waits lets batches queue up, and with them the threads.
constexpr double kSlack = 1.1;

constexpr size_t kMostSpare = 512;

void follow(double& average, double value, double weight) {
  average = average == 0 ? value : average + weight * (value - average);
}

}  // namespace

bool DecodeShare::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > most_bytes_ - bytes_) return false;
  if (balances_ && device_ns_ == 0) {
    if (waiting_ >= kTrials) return false;
  } else if (balances_) {
    due_ = std::min(due_ + share_now(), 2.0);  // what could not be left in time is not made up for
    if (due_ < 1) return false;
    due_ -= 1;
  }
  bytes_ += bytes;
  ++waiting_;
  ++left_;
  return true;
}

void DecodeShare::give_back(size_t bytes, FileBuffer file) {
  const std::lock_guard lock(mutex_);
  bytes_ -= bytes;
  --waiting_;
  if (spare_.size() < kMostSpare) spare_.push_back(std::move(file));
}

FileBuffer DecodeShare::spare_buffer() {
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) return {};
  FileBuffer buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

void DecodeShare::worker_took(int64_t ns, bool left) {
  const std::lock_guard lock(mutex_);
  follow(left ? left_ns_ : made_ns_, static_cast<double>(ns), 1.0 / 16);
}

void DecodeShare::device_took(int64_t decode_ns, int64_t pictures, int64_t rest_ns, int64_t rows) {
  const std::lock_guard lock(mutex_);
  const auto each = [](int64_t ns, int64_t count) { return std::max(1.0, static_cast<double>(ns) / static_cast<double>(count)); };
  if (pictures > 0) follow(device_ns_, each(decode_ns, pictures), 1.0 / 4);
  if (rows > 0) follow(rest_ns_, each(rest_ns, rows), 1.0 / 4);
}

double DecodeShare::share_now() const {
  if (!balances_) return 1;
  if (device_ns_ == 0 || made_ns_ == 0) return 0.5;
  const double threads = kSlack * threads_, more = made_ns_ - threads * rest_ns_, both = threads * device_ns_ + made_ns_ - left_ns_;
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

int64_t DecodeShare::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

}  // namespace millrace
