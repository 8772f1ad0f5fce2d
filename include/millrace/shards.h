// Tar shards of the webdataset kind: read in any order through an index, or from front to back.
//
// A sample is consecutive files of one key (the name up to the first dot of its last part).
// Fields: "image" of the picture, and "label", i64, the whole number in the label's file. Shard lists know
// braces: "train-{000000..000146}.tar", "{a,b}/x.tar"; a backslash takes a brace's meaning away.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/dataset.h"
#include "millrace/export.h"
#include "millrace/transforms.h"

namespace millrace {

struct ShardOptions {
  // The first of these that a sample has, in their order.
  std::vector<std::string> image_suffixes{"jpg", "jpeg", "png", "webp"};
  std::vector<std::string> label_suffixes{"cls"};  // none: labels are 0
  bool exif = false;                               // turns pictures as their EXIF says
  bool ragged = false;                             // as ImageFolderOptions::ragged, and its fields
};

// Plain local tar files as a map-style dataset, samples numbered shard after shard: any of them is one read
// away. The samples are those of millrace.datasets.WebDataset(...).indexed() in Python, and so are the
// states. The index of a shard is what `millrace pack` put beside it ("x.tar.index"), if it is of the shard's
// present content; else it is made by a walk over the headers, about 3 ms for 1,000 samples.
//
// Throws Error(not_found) naming the shard; Error(unavailable) for a packed one (.tar.gz);
// Error(corrupt_data) for a damaged one, and naming a sample that has no picture, or no whole number as its
// label; Error(invalid_argument) where what it requires does not hold.
// Requires: local paths, one at least; one image suffix at least.
MILLRACE_API Dataset indexed_shards(const std::vector<std::string>& shards, const Transforms& transforms,
                                    const ShardOptions& options = {});

struct StreamOptions : ShardOptions {
  bool shuffle_shards = false;  // their order, by (seed, Loader::epoch()), as Python's shardshuffle=True
  int64_t shuffle_buffer = 0;   // samples from which the next one is drawn, as Python's shuffle(); 0: none
  uint64_t seed = 0;
  // Each rank reads every ranks-th shard; where there are fewer shards than ranks, every ranks-th sample.
  int rank = 0, ranks = 1;
};

// Local tar files from front to back, plain, .gz or .zst (told by their content). size() is -1, and a Loader
// over it has no sampler and no shuffle of its own; Batch::indices() counts the epoch's samples. Samples,
// order and states are those of Python, in the same rank, with Loader::epoch() as the epoch:
//
//   WebDataset(shards, shardshuffle=shuffle_shards, seed=seed).shuffle(shuffle_buffer)   # no shuffle() for 0
//     .decode("pil").to_tuple("jpg;jpeg;png;webp", "cls").map_tuple(transforms)
//
// The thread that calls next() reads headers and labels, and all of packed shards; pictures of plain ones are
// read and decoded by the loader's threads. A fault of a shard, or a sample that lacks a file, is the
// error of a batch, and the epoch ends there. A picture that cannot be decoded is left out under
// OnError::skip, and its batch is shorter; for that, the transforms give one shape, or `ragged` is set.
// OnError::replace is Error(invalid_argument).
//
// A state has the shard and sample at which reading resumes, and how many samples the buffer gave: resuming
// reads the samples that the buffer held again, and the headers of one shard before them. As in Python, a
// state taken after an epoch's last batch, if that is not full, begins the next epoch. Files are opened when
// an epoch comes to them.
//
// Throws Error(invalid_argument) where what it requires does not hold.
// Requires: local paths, one at least; one image suffix at least.
// Requires: 0 <= shuffle_buffer <= 2^62; 0 <= rank < ranks.
MILLRACE_API Dataset stream_shards(const std::vector<std::string>& shards, const Transforms& transforms,
                                   const StreamOptions& options = {});

}  // namespace millrace
