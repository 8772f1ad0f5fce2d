#include "api/shard_stream.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "millrace/error.h"
#include "samplers/keyed_permutation.h"

namespace millrace::api {
namespace {

constexpr uint32_t kDraws = 0x5A4D;     // Philox's stream of the buffer's draws
constexpr int64_t kFirst = 100;         // the buffer gives its first sample when it has so many
constexpr int64_t kLabelBytes = 64;     // a whole number has fewer, with spaces around it
constexpr int64_t kTrusted = 64 << 20;  // what a packed file claims to have is believed piece by piece

// The content of a file in a packed shard.
class Bytes final : public io::ByteSource {
 public:
  Bytes(std::string content, std::string name) : content_(std::move(content)), name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(content_.size()); }
  void read_at(int64_t offset, std::span<uint8_t> into) const override {
    std::copy_n(content_.begin() + offset, into.size(), into.begin());
  }

 private:
  const std::string content_, name_;
};

size_t rank_of(const std::string& suffix, const std::vector<std::string>& wanted) {
  return static_cast<size_t>(std::find(wanted.begin(), wanted.end(), suffix) - wanted.begin());
}

}  // namespace

ShardStream::ShardStream(const std::vector<std::string>& shards, const StreamOptions& options, uint64_t epoch)
    : paths_(shards), options_(options), epoch_(epoch) {
  const auto count = static_cast<int64_t>(shards.size());
  const samplers::KeyedPermutation shuffled(count, options.seed, epoch);
  const bool by_shard = count >= options.ranks;
  if (!by_shard) stride_ = options.ranks;
  for (int64_t i = by_shard ? options.rank : 0; i < count; i += by_shard ? options.ranks : 1)
    order_.push_back(options.shuffle_shards ? shuffled.at(i) : i);
}

bool ShardStream::next(StreamedSample& sample) {
  if (options_.shuffle_buffer < 1) return read(sample);
  // As full before output g as Python's shuffle(): min(first + 2 g, size + g) samples in all.
  const int64_t first = std::min(kFirst, options_.shuffle_buffer);
  const int64_t wanted = std::min(first + 2 * given_, options_.shuffle_buffer + given_);
  for (StreamedSample more; !drained_ && taken_ < wanted; ++taken_) {
    if (!read(more)) {
      drained_ = true;
      break;
    }
    buffer_.push_back(std::move(more));
    more = {};
  }
  if (buffer_.empty()) return false;
  std::swap(buffer_[below(buffer_.size())], buffer_.back());
  sample = std::move(buffer_.back());
  buffer_.pop_back();
  ++given_;
  return true;
}

// 64 random bits of (seed, epoch, rank, output), times `end`, without the lower half.
uint64_t ShardStream::below(uint64_t end) {
  base::SampleKey key;
  key.seed = options_.seed;
  key.epoch = epoch_;
  key.index = given_;
  key.occurrence = static_cast<uint32_t>(options_.rank);
  const auto words = base::Philox(key, kDraws).words(0);
  const uint64_t low = uint64_t{words[0]} * end, high = uint64_t{words[1]} * end;
  return (high + (low >> 32)) >> 32;
}

bool ShardStream::read(StreamedSample& sample) {
  if (ended_) return false;
  try {
    while (reader_ || open_next()) {
      if (read_sample(sample)) {
        const int64_t number = number_++;
        if ((number + static_cast<int64_t>(shard_) - 1) % stride_ != options_.rank % stride_) continue;
        sample.picture.number = order_[shard_ - 1] << 32 | number;
        return true;
      }
      reader_.reset();
    }
  } catch (...) {
    ended_ = true;
    throw;
  }
  ended_ = true;
  return false;
}

bool ShardStream::open_next() {
  if (shard_ == order_.size()) return false;
  const std::string& path = paths_[static_cast<size_t>(order_[shard_++])];
  source_ = io::open_local_file(path);
  reader_ = std::make_unique<sources::ShardReader>(source_);
  number_ = 0;
  has_file_ = false;
  return true;
}

// The files of one key. False at the shard's end.
bool ShardStream::read_sample(StreamedSample& sample) {
  if (!has_file_ && !reader_->next(file_)) return false;
  sample = {};
  picture_rank_ = options_.image_suffixes.size();
  label_rank_ = options_.label_suffixes.size();
  suffixes_.clear();
  const std::string key = file_.key;
  do take(file_, sample);
  while ((has_file_ = reader_->next(file_)) && file_.key == key);
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::corrupt_data, source_->name() + ": sample '" + key + "' " + what, source_->name());
  };
  if (picture_rank_ == options_.image_suffixes.size()) refuse("has no file of an image suffix");
  if (!options_.label_suffixes.empty() && label_rank_ == options_.label_suffixes.size())
    refuse("has no file of a label suffix; without labels, give no label_suffixes");
  return true;
}

void ShardStream::take(const sources::ShardFile& file, StreamedSample& sample) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::corrupt_data, source_->name() + ": '" + file.entry.name + "' " + what,
                source_->name(), file.entry.header);
  };
  if (std::find(suffixes_.begin(), suffixes_.end(), file.suffix) != suffixes_.end())
    refuse("is there twice in its sample");
  suffixes_.push_back(file.suffix);
  if (const size_t rank = rank_of(file.suffix, options_.image_suffixes); rank < picture_rank_) {
    picture_rank_ = rank;
    sample.picture.key = file.key + "." + file.suffix;
    sample.picture.size = file.entry.size;
    if (reader_->packed()) {
      sample.picture.source = std::make_shared<Bytes>(content(file.entry.size), source_->name());
      sample.picture.offset = 0;
    } else {
      sample.picture.source = source_;
      sample.picture.offset = file.entry.offset;
    }
  } else if (const size_t number = rank_of(file.suffix, options_.label_suffixes); number < label_rank_) {
    label_rank_ = number;
    std::string text = file.entry.size <= kLabelBytes ? content(file.entry.size) : "";
    const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
    while (!text.empty() && is_space(text.back())) text.pop_back();
    text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), is_space));
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), sample.label);
    if (text.empty() || parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size())
      refuse("is a label that is no whole number");
  }
}

std::string ShardStream::content(int64_t bytes) {
  std::string data;
  while (std::ssize(data) < bytes) {
    const size_t before = data.size();
    data.resize(before + static_cast<size_t>(std::min(bytes - std::ssize(data), kTrusted)));
    reader_->read({reinterpret_cast<uint8_t*>(data.data()) + before, data.size() - before});
  }
  return data;
}

}  // namespace millrace::api
