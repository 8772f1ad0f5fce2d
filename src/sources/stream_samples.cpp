#include "sources/stream_samples.h"

#include <limits>
#include <utility>
#include <vector>

#include "millrace/error.h"

namespace millrace::sources {

int64_t StreamSamples::add(Sample sample) {
  const std::lock_guard lock(mutex_);
  samples_.push_back(std::move(sample));
  return first_ + static_cast<int64_t>(samples_.size()) - 1;
}

void StreamSamples::drop_before(int64_t ticket) {
  std::vector<Sample> dropped;  // goes after the lock: a source's end may wait for others
  const std::lock_guard lock(mutex_);
  for (; first_ < ticket && !samples_.empty(); ++first_) {
    dropped.push_back(std::move(samples_.front()));
    samples_.pop_front();
  }
}

int64_t StreamSamples::held() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(samples_.size());
}

int64_t StreamSamples::size() const { return std::numeric_limits<int64_t>::max(); }

StreamSamples::Sample StreamSamples::sample(int64_t ticket) const {
  const std::lock_guard lock(mutex_);
  const int64_t at = ticket - first_;
  if (at < 0 || at >= static_cast<int64_t>(samples_.size()))
    throw Error(ErrorKind::out_of_range, "ticket " + std::to_string(ticket) + " is no sample on its way");
  return samples_[static_cast<size_t>(at)];
}

std::string StreamSamples::name(int64_t ticket) const {
  const Sample found = sample(ticket);
  if (found.in) return found.in->name(found.offset);
  return found.source ? found.source->name() + "/" + found.key : found.key;
}

void StreamSamples::read(int64_t ticket, io::FileBuffer& into) const {
  const Sample found = sample(ticket);
  if (found.in) return found.in->read(found.offset, into);
  if (!found.source) return io::read_file(found.key, into);
  found.source->read_at(found.offset, into.resize(static_cast<size_t>(found.size)));
}

std::optional<Pixels> StreamSamples::pixels(int64_t ticket) const {
  const Sample found = sample(ticket);
  return found.in ? found.in->pixels(found.offset) : std::nullopt;
}

void StreamSamples::identify(base::SampleKey& key) const {
  const Sample found = sample(key.index);
  key.index = found.number;
  key.occurrence = found.pass;
}

}  // namespace millrace::sources
