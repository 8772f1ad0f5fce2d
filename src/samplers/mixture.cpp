#include "samplers/mixture.h"

#include <string>
#include <utility>

#include "millrace/error.h"

namespace millrace::samplers {

Mixture::Mixture(std::span<const int64_t> lengths, std::vector<uint64_t> weights, uint64_t seed,
                 uint64_t epoch, bool shuffle, int64_t start, std::vector<int64_t> counts)
    : seed_(seed), epoch_(epoch), shuffle_(shuffle), start_(start), schedule_(weights, seed, epoch) {
  if (lengths.size() != weights.size() || (!counts.empty() && counts.size() != weights.size()))
    throw Error(ErrorKind::invalid_argument,
                "a mixture of " + std::to_string(lengths.size()) + " sources has as many weights, not " +
                    std::to_string(weights.size()) + ", and as many counts or none");
  int64_t first = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || (lengths[i] == 0 && weights[i] > 0))
      throw Error(ErrorKind::invalid_argument,
                  "source " + std::to_string(i) + " has " + std::to_string(lengths[i]) +
                      " samples; a source that is drawn from needs at least one");
    Source& source = sources_.emplace_back();
    source.first = first;
    source.length = lengths[i];
    source.before = counts.empty() ? 0 : counts[i];
    if (source.before < 0) throw Error(ErrorKind::invalid_argument, "counts are 0 or more");
    first += lengths[i];
  }
}

void Mixture::draw(Source& source, size_t number, size_t slot, std::span<int64_t> out) const {
  const int64_t draws = source.before + schedule_.counts()[number] - 1;  // without this one
  if (draws != source.next_draw) {  // not one after the other; a division costs as much as all the rest
    source.pass = draws / source.length;
    source.offset = draws % source.length;
  }
  const int64_t pass = source.pass, offset = source.offset;
  source.next_draw = draws + 1;
  if (++source.offset == source.length) source.offset = 0, ++source.pass;
  if (!shuffle_ || source.length == 1) {
    out[slot] = source.first + offset;
    return;
  }
  if (pass != source.order_pass) {
    if (!source.slots.empty()) finish(source, out);
    source.order.emplace(source.length, seed_, epoch_,
                         static_cast<uint64_t>(pass) * sources_.size() + number);
    source.order_pass = pass;
  }
  source.offsets.push_back(offset);
  source.slots.push_back(slot);
}

void Mixture::finish(Source& source, std::span<int64_t> out) const {
  source.order->at(source.offsets, source.offsets);
  for (size_t j = 0; j < source.slots.size(); ++j) out[source.slots[j]] = source.first + source.offsets[j];
  source.offsets.clear();
  source.slots.clear();
}

void Mixture::seek(int64_t position) {
  if (position < start_)
    throw Error(ErrorKind::out_of_range, "a mixture that starts at " + std::to_string(start_) +
                                             " has no position " + std::to_string(position));
  if (position - start_ != schedule_.turn()) schedule_.seek(position - start_);
}

void Mixture::at(std::span<const int64_t> positions, std::span<int64_t> out) {
  for (size_t i = 0; i < positions.size(); ++i) {
    seek(positions[i]);
    const size_t number = schedule_.next();
    draw(sources_[number], number, i, out);
  }
  for (Source& source : sources_)
    if (!source.slots.empty()) finish(source, out);
}

std::vector<int64_t> Mixture::counts_at(int64_t position) {
  seek(position);
  std::vector<int64_t> counts = schedule_.counts();
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += sources_[i].before;
  return counts;
}

}  // namespace millrace::samplers
