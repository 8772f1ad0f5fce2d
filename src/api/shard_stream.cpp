#include "api/shard_stream.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "millrace/error.h"
#include "millrace/state.h"
#include "samplers/keyed_permutation.h"

namespace millrace::api {
namespace {

constexpr int64_t kFirst = 100;         // a buffer that can gives its first sample when it has so many
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

// What a buffer's draws are a function of, as Python writes it: repetition 0, the first stage, without a seed
// of its own.
std::string key_of(const StreamOptions& options, uint64_t epoch) {
  return "(" + std::to_string(options.seed) + ", " + std::to_string(epoch) + ", 0, 1, " +
         std::to_string(options.rank) + ", " + std::to_string(options.ranks) + ", 'shuffle', None)";
}

[[noreturn]] void fail_places(const json::Value& places) {
  throw StateError("the state's places " + places.written().substr(0, 100) +
                   " are none in this stream of shards; load another state");
}

}  // namespace

ShardStream::ShardStream(const std::vector<std::string>& shards, const StreamOptions& options, uint64_t epoch)
    : paths_(shards), options_(options), draws_(key_of(options, epoch)),
      first_(std::min(kFirst, options.shuffle_buffer)),
      every_(std::max<int64_t>(1, options.shuffle_buffer / 8)), marks_{{0, Place{}}} {
  const auto count = static_cast<int64_t>(shards.size());
  const samplers::KeyedPermutation shuffled(count, options.seed, epoch);
  const bool by_shard = count >= options.ranks;
  if (!by_shard) stride_ = options.ranks;
  for (int64_t i = by_shard ? options.rank : 0; i < count; i += by_shard ? options.ranks : 1)
    order_.push_back(options.shuffle_shards ? shuffled.at(i) : i);
}

bool ShardStream::next(StreamedSample& sample) {
  if (options_.shuffle_buffer < 1) return read(sample);
  while (total_ < 0 && taken_ < wanted(given_))
    if (!take_one()) total_ = taken_;
  if (buffer_.empty()) return false;
  const auto at = static_cast<size_t>(draws_.below(static_cast<uint64_t>(given_), buffer_.size()));
  std::swap(buffer_[at], buffer_.back());
  std::swap(numbers_[at], numbers_.back());
  sample = std::move(buffer_.back());
  buffer_.pop_back();
  numbers_.pop_back();
  ++given_;
  return true;
}

int64_t ShardStream::wanted(int64_t given) const {
  return std::min(first_ + 2 * given, options_.shuffle_buffer + given);
}

bool ShardStream::take_one() {
  StreamedSample more;
  if (!read(more)) return false;
  buffer_.push_back(std::move(more));
  numbers_.push_back(taken_++);
  if (taken_ % every_ == 0) mark();
  return true;
}

void ShardStream::mark() {
  if (taken_ > marks_.back().first) marks_.emplace_back(taken_, place());
  const int64_t oldest = numbers_.empty() ? taken_ : *std::min_element(numbers_.begin(), numbers_.end());
  while (marks_.size() > 1 && marks_[1].first <= oldest) marks_.pop_front();
}

ShardStream::Place ShardStream::place() const {
  return reader_ ? Place{static_cast<int64_t>(shard_) - 1, number_} : Place{static_cast<int64_t>(shard_), 0};
}

json::Value ShardStream::places() const {
  const bool buffers = options_.shuffle_buffer > 0;
  const Place at = buffers ? marks_.front().second : place();
  json::Value::Array places{json::Value::Array{at.shard, at.sample}};
  if (buffers)
    places.emplace_back(
        json::Value::Array{given_, total_ < 0 ? json::Value{} : json::Value(total_), marks_.front().first});
  return places;
}

void ShardStream::go_on(const json::Value& places) {
  const bool buffers = options_.shuffle_buffer > 0;
  const auto numbers = [&](size_t entry, size_t count) {
    const json::Value::Array* const list = places.array();
    if (list == nullptr || list->size() != 1u + buffers || (*list)[entry].array() == nullptr ||
        (*list)[entry].array()->size() != count)
      fail_places(places);
    std::vector<int64_t> found;
    for (const json::Value& number : *(*list)[entry].array()) {
      if (!number.is_null() && (number.integer() == nullptr || *number.integer() < 0)) fail_places(places);
      found.push_back(number.is_null() ? -1 : *number.integer());
    }
    return found;
  };
  const std::vector<int64_t> at = numbers(0, 2);
  if (at[0] < 0 || at[0] > std::ssize(order_) || at[1] < 0) fail_places(places);
  const Place place{at[0], at[1]};
  go_to(place);
  if (!buffers) return;
  const std::vector<int64_t> own = numbers(1, 3);
  if (own[0] < 0 || own[2] < 0 || (own[1] >= 0 && own[0] > own[1])) fail_places(places);
  total_ = own[1];
  taken_ = own[2];
  marks_ = {{taken_, place}};
  numbers_ = held_behind(own[0]);
  int64_t end =
      own[0] > 0 ? wanted(own[0] - 1) : taken_;  // as far as it had read when it last gave something
  if (total_ >= 0) end = numbers_.empty() ? 0 : *std::max_element(numbers_.begin(), numbers_.end()) + 1;
  std::vector<StreamedSample> found(static_cast<size_t>(std::max<int64_t>(0, end - taken_)));
  for (const int64_t begin = taken_; taken_ < end; ++taken_) {
    if (taken_ % every_ == 0 && taken_ > marks_.back().first) marks_.emplace_back(taken_, this->place());
    if (!read(found[static_cast<size_t>(taken_ - begin)]))
      throw StateError("the state was taken behind sample " + std::to_string(end) +
                       " of a stream that now has " + std::to_string(taken_) +
                       "; resume with the same shards and options");
  }
  for (const int64_t number : numbers_) {
    if (number < own[2]) fail_places(places);
    buffer_.push_back(std::move(found[static_cast<size_t>(number - own[2])]));
  }
  given_ = own[0];
  if (total_ >= 0) taken_ = total_;
}

// The numbers of the samples that the buffer holds after `given` outputs, by place in it, if as much was read
// as the last of these outputs needed.
std::vector<int64_t> ShardStream::held_behind(int64_t given) {
  std::vector<int64_t> numbers;
  int64_t read = 0;
  for (int64_t output = 0; output < given; ++output) {
    const int64_t until = total_ < 0 ? wanted(output) : std::min(wanted(output), total_);
    for (; read < until; ++read) numbers.push_back(read);
    if (numbers.empty())
      throw StateError("the state's stream gave more samples than it had; load another state");
    std::swap(numbers[static_cast<size_t>(draws_.below(static_cast<uint64_t>(output), numbers.size()))],
              numbers.back());
    numbers.pop_back();
  }
  return numbers;
}

// Runs over the samples before it: for plain shards their headers.
void ShardStream::go_to(const Place& place) {
  shard_ = static_cast<size_t>(place.shard);
  if (place.sample == 0 || !open_next()) return;
  StreamedSample passed;
  while (number_ < place.sample && read_sample(passed)) ++number_;
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
