// indexed_shards(): plain tar shards; their samples are files of ImageSamples, numbered shard after shard.
#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "api/image_dataset.h"
#include "api/shard_list.h"
#include "core/thread_group.h"
#include "io/byte_source.h"
#include "io/saved_file.h"
#include "millrace/error.h"
#include "millrace/shards.h"
#include "sources/tar_samples.h"

namespace millrace {
namespace {

using Shard = sources::TarSamples::Shard;

constexpr size_t kOpeners = 8;  // shards opened at once: one that waits for a disk lets others go on

// The index that `millrace pack` put beside the shard, if it is one of this very content.
std::optional<sources::TarIndex> index_beside(const io::ByteSource& shard) {
  const std::string path = shard.name() + ".index";
  std::error_code missing;
  const auto made = std::filesystem::last_write_time(path, missing);
  if (missing) return std::nullopt;
  const auto changed = std::filesystem::last_write_time(shard.name(), missing);
  if (missing || made < changed) return std::nullopt;
  try {
    sources::TarIndex index = sources::TarIndex::load(path);
    if (index.shard_bytes() == shard.size() && index.mark() == io::content_mark(shard)) return index;
  } catch (const Error&) {  // it is made anew
  }
  return std::nullopt;
}

Shard opened(const std::string& path) {
  Shard shard;
  shard.source = io::open_local_file(path, {}, false);
  auto index = index_beside(*shard.source);
  shard.index = std::make_shared<const sources::TarIndex>(index ? std::move(*index)
                                                                : sources::TarIndex::build(shard.source));
  return shard;
}

// By a few threads, which end before this returns. Throws the error of the first shard that has one.
std::vector<Shard> opened(const std::vector<std::string>& paths) {
  std::vector<Shard> shards(paths.size());
  std::vector<std::exception_ptr> errors(paths.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < paths.size(); i = next++) {
      try {
        shards[i] = opened(paths[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  {
    core::ThreadGroup helpers;
    try {
      for (size_t i = 1; i < std::min(kOpeners, paths.size()); ++i) helpers.start("millrace-index", work);
    } catch (const Error&) {
      // No more threads to be had: those there are, and this one, do the work.
    }
    work();
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return shards;
}

std::vector<int64_t> labels_of(const std::vector<Shard>& shards, const std::vector<std::string>& suffixes) {
  std::vector<int64_t> labels;
  if (suffixes.empty()) return labels;
  const auto refuse = [&](const Shard& shard, int64_t sample, const std::string& what) {
    throw Error(ErrorKind::corrupt_data,
                shard.source->name() + ": sample '" + shard.index->key(sample) + "' " + what,
                shard.source->name());
  };
  for (const Shard& shard : shards)
    for (int64_t sample = 0; sample < shard.index->size(); ++sample) {
      const sources::TarIndex::File* const file = shard.index->find(sample, suffixes);
      if (file == nullptr)
        refuse(shard, sample, "has no file of a label suffix; without labels, give no label_suffixes");
      else if (file->number == sources::TarIndex::kNoNumber)
        refuse(shard, sample,
               "has a label that is no whole number in ." + shard.index->suffixes()[file->suffix]);
      else
        labels.push_back(file->number);
    }
  return labels;
}

}  // namespace

Dataset indexed_shards(const std::vector<std::string>& shards, const Transforms& transforms,
                       const ShardOptions& options) {
  if (options.image_suffixes.empty())
    throw Error(ErrorKind::invalid_argument, "indexed_shards() has no image_suffixes; give one at least");
  std::vector<Shard> found = opened(api::expand_shards(shards));
  std::vector<int64_t> labels = labels_of(found, options.label_suffixes);
  auto files = std::make_shared<sources::TarSamples>(std::move(found), options.image_suffixes);
  return Dataset(std::make_shared<const api::ImageSamples>(
      std::move(files), std::move(labels), transforms, options.exif, options.ragged,
      "millrace.datasets.webdataset.indexed.IndexedWebDataset"));
}

}  // namespace millrace
