#include "sources/tar_samples.h"

#include <algorithm>

#include "millrace/error.h"

namespace millrace::sources {

TarSamples::TarSamples(std::vector<Shard> shards, std::vector<std::string> suffixes)
    : shards_(std::move(shards)), suffixes_(std::move(suffixes)) {
  int64_t end = 0;
  for (const Shard& shard : shards_) {
    for (int64_t sample = 0; sample < shard.index->size(); ++sample) {
      if (shard.index->find(sample, suffixes_) != nullptr) continue;
      std::string wanted, there;
      for (const std::string& suffix : suffixes_) wanted += (wanted.empty() ? "" : " or ") + suffix;
      for (const TarIndex::File& file : shard.index->files(sample))
        there += (there.empty() ? "" : ", ") + shard.index->suffixes()[file.suffix];
      throw Error(ErrorKind::corrupt_data,
                  shard.source->name() + ": sample '" + shard.index->key(sample) + "' has no " + wanted +
                      ", only " + there,
                  shard.source->name());
    }
    end += shard.index->size();
    ends_.push_back(end);
  }
}

std::pair<const TarSamples::Shard*, int64_t> TarSamples::place(int64_t index) const {
  if (index < 0 || index >= size())
    throw Error(ErrorKind::out_of_range,
                "sample " + std::to_string(index) + " is not one of the shards' " + std::to_string(size()));
  const auto shard = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  return {&shards_[shard], index - (shard == 0 ? 0 : ends_[shard - 1])};
}

std::string TarSamples::name(int64_t index) const {
  const auto [shard, sample] = place(index);
  const TarIndex::File& file = *shard->index->find(sample, suffixes_);
  return shard->source->name() + "/" + shard->index->key(sample) + "." +
         shard->index->suffixes()[file.suffix];
}

void TarSamples::read(int64_t index, io::FileBuffer& into) const {
  const auto [shard, sample] = place(index);
  const TarIndex::File& file = *shard->index->find(sample, suffixes_);
  shard->source->read_at(file.offset, into.resize(static_cast<size_t>(file.size)));
}

}  // namespace millrace::sources
