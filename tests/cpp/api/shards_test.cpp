// Tar shards, read by an index and from front to back, through a Loader.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>

#include "../scratch_folder.h"
#include "../test_data.h"
#include "errors_of.h"
#include "millrace/loader.h"
#include "millrace/shards.h"
#include "tar_files.h"

namespace millrace {
namespace {

const Transforms kSmall{Resize{8, 8}, ToTensor{}};

std::string picture() {
  std::ifstream file(test_data("jpeg/422_q90.jpg"), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_FALSE(bytes.empty());
  return bytes;
}

// Samples `first` .. `first + count - 1`, whose labels are their first_numbers.
std::string shard(int64_t first, int64_t count) {
  TarFiles files;
  for (int64_t i = first; i < first + count; ++i) {
    const std::string key = "images/" + std::to_string(1000 + i);
    files.emplace_back(key + ".cls", std::to_string(i));
    files.emplace_back(key + ".jpg", picture());
  }
  return tar_file(files);
}

std::vector<int64_t> labels_of(Loader& loader) {
  std::vector<int64_t> labels;
  for (const Batch& batch : loader)
    for (const int64_t label : batch["label"].as<int64_t>()) labels.push_back(label);
  return labels;
}

std::vector<int64_t> first_numbers(int64_t end) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < end; ++i) result.push_back(i);
  return result;
}

class Shards : public ::testing::TestWithParam<int> {
 protected:
  LoaderOptions options(int64_t batch_size) const {
    return {.batch_size = batch_size, .threads = GetParam()};
  }
};
INSTANTIATE_TEST_SUITE_P(Threads, Shards, ::testing::Values(0, 1, 4));

TEST_P(Shards, SamplesAreNumberedShardAfterShard) {
  const ScratchFolder folder;
  folder.write("train-08.tar", shard(0, 5));
  folder.write("train-09.tar", shard(5, 1));
  folder.write("train-10.tar", shard(6, 4));
  const Dataset data = indexed_shards({folder / "train-{08..10}.tar"}, kSmall);
  ASSERT_EQ(data.size(), 10);
  EXPECT_EQ(data.fields()[0], (FieldSpec{"image", DType::f32, {3, 8, 8}, false}));
  Loader loader(data, options(3));
  EXPECT_EQ(labels_of(loader), first_numbers(10));
  LoaderOptions shuffled = options(3);
  shuffled.shuffle = true;
  Loader other(data, shuffled);
  const std::vector<int64_t> labels = labels_of(other);
  EXPECT_NE(labels, first_numbers(10));
  EXPECT_EQ(std::set<int64_t>(labels.begin(), labels.end()).size(), 10u);
}

TEST_P(Shards, TheFirstOfTheSuffixesIsThePicture) {
  const ScratchFolder folder;
  const std::string path =
      folder.write("a.tar", tar_file({{"0.png", "no picture"}, {"0.jpg", picture()}, {"1.jpg", picture()}}));
  Loader loader(indexed_shards({path}, kSmall, {.label_suffixes = {}}), options(2));
  EXPECT_EQ(labels_of(loader), (std::vector<int64_t>{0, 0}));
  Loader png(indexed_shards({path}, kSmall, {.image_suffixes = {"png", "jpg"}, .label_suffixes = {}}),
             options(2));
  Batch batch;
  EXPECT_EQ(kind_of([&] { png.next(batch); }, "a.tar/0.png"), ErrorKind::unavailable);
}

TEST_P(Shards, StreamsComeInTheOrderOfTheirShards) {
  const ScratchFolder folder;
  folder.write("0.tar", shard(0, 5));
  folder.write("1.tar", shard(5, 6));
  const Dataset data = stream_shards({folder / "{0,1}.tar"}, kSmall);
  EXPECT_EQ(data.size(), -1);
  EXPECT_EQ(data.fields()[0], (FieldSpec{"image", DType::f32, {3, 8, 8}, false}));
  Loader loader(data, options(4));
  EXPECT_EQ(loader.size(), -1);
  for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(labels_of(loader), first_numbers(11));
  LoaderOptions whole = options(4);
  whole.drop_last = true;
  Loader dropping(data, whole);
  EXPECT_EQ(labels_of(dropping), first_numbers(8));
  // The pictures are those of the index, at the same place.
  Batch streamed, indexed;
  Loader other(indexed_shards({folder / "{0,1}.tar"}, kSmall), options(4));
  ASSERT_TRUE(loader.next(streamed) && other.next(indexed));
  const auto a = streamed["image"].as<float>(), b = indexed["image"].as<float>();
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  EXPECT_EQ(streamed.indices(), indexed.indices());
}

TEST_P(Shards, RanksDivideAStream) {
  const ScratchFolder folder;
  for (int64_t i = 0; i < 3; ++i) folder.write(std::to_string(i) + ".tar", shard(4 * i, 4));
  for (const int ranks : {2, 3, 5}) {
    std::multiset<int64_t> labels;
    for (int rank = 0; rank < ranks; ++rank) {
      StreamOptions stream;
      stream.rank = rank, stream.ranks = ranks, stream.shuffle_shards = true;
      Loader loader(stream_shards({folder / "{0..2}.tar"}, kSmall, stream), options(3));
      const auto found = labels_of(loader);
      labels.insert(found.begin(), found.end());
    }
    EXPECT_EQ(std::vector<int64_t>(labels.begin(), labels.end()), first_numbers(12)) << ranks;
  }
}

TEST_P(Shards, AShuffledStreamIsAnotherOneInEachEpochAndGoesOnAtEveryBatch) {
  const ScratchFolder folder;
  for (int64_t i = 0; i < 4; ++i) folder.write(std::to_string(i) + ".tar", shard(5 * i, 5));
  StreamOptions stream;
  stream.shuffle_shards = true, stream.shuffle_buffer = 8, stream.seed = 3;
  const Dataset data = stream_shards({folder / "{0..3}.tar"}, kSmall, stream);
  Loader loader(data, options(3));
  std::vector<std::string> states;
  std::vector<std::vector<int64_t>> batches;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const Batch& batch : loader) {
      const auto labels = batch["label"].as<int64_t>();
      batches.emplace_back(labels.begin(), labels.end());
      states.push_back(loader.state());
    }
  ASSERT_EQ(batches.size(), 14u);
  std::vector<int64_t> first, second;
  for (size_t i = 0; i < 14; ++i)
    (i < 7 ? first : second).insert((i < 7 ? first : second).end(), batches[i].begin(), batches[i].end());
  EXPECT_NE(first, first_numbers(20));
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set<int64_t>(second.begin(), second.end()).size(), 20u);
  for (size_t at = 0; at < states.size(); ++at) {
    Loader resumed(data, options(3));
    resumed.load_state(states[at]);
    std::vector<int64_t> rest;
    for (size_t i = at + 1; i < (at < 7 ? 7u : 14u); ++i)
      rest.insert(rest.end(), batches[i].begin(), batches[i].end());
    EXPECT_EQ(labels_of(resumed), rest) << at;  // nothing behind the last batch, though it is not full
    if (at < 7) {
      EXPECT_EQ(labels_of(resumed), second) << at;
    }
  }
}

TEST_P(Shards, WhatIsWrongInAStreamIsTheErrorOfItsBatch) {
  const ScratchFolder folder;
  const std::string good = folder.write("0.tar", shard(0, 3));
  const auto stream = [&](const std::string& second, OnError on_error = OnError::raise) {
    LoaderOptions loading = options(2);
    loading.on_error = on_error;
    return std::make_unique<Loader>(stream_shards({good, second}, kSmall), loading);
  };
  const std::vector<std::pair<std::string, ErrorKind>> wrong{
      {folder / "none.tar", ErrorKind::not_found},
      {folder.write("a.tar", tar_file({{"7.cls", "3"}})), ErrorKind::corrupt_data},
      {folder.write("b.tar", tar_file({{"7.jpg", picture()}})), ErrorKind::corrupt_data},
      {folder.write("c.tar", tar_file({{"7.jpg", picture()}, {"7.cls", "cat"}})), ErrorKind::corrupt_data},
      {folder.write("d.tar", "this is no archive, but a few words"), ErrorKind::corrupt_data}};
  for (const auto& [path, kind] : wrong) {
    const auto loader = stream(path);
    Batch batch;
    EXPECT_TRUE(loader->next(batch)) << path;
    EXPECT_EQ(kind_of([&] { loader->next(batch); }, path), kind);
    EXPECT_FALSE(loader->next(batch)) << path;
  }
  const std::string torn = folder.write(
      "e.tar", tar_file({{"3.jpg", "no picture"}, {"3.cls", "3"}, {"4.jpg", picture()}, {"4.cls", "4"}}));
  const auto raising = stream(torn);
  Batch batch;
  EXPECT_TRUE(raising->next(batch));
  EXPECT_EQ(kind_of([&] { raising->next(batch); }, "3.jpg"), ErrorKind::unavailable);  // of no known format
  EXPECT_TRUE(raising->next(batch));
  EXPECT_EQ(batch["label"].as<int64_t>()[0], 4);
  const auto skipping = stream(torn, OnError::skip);
  EXPECT_EQ(labels_of(*skipping), (std::vector<int64_t>{0, 1, 2, 4}));
  EXPECT_EQ(skipping->stats().left_out, 1);
  StreamOptions any_size;
  any_size.ragged = true;
  LoaderOptions loading = options(4);
  loading.on_error = OnError::skip;
  Loader ragged(stream_shards({good, torn}, {ToTensor{}}, any_size), loading);
  EXPECT_EQ(labels_of(ragged), (std::vector<int64_t>{0, 1, 2, 4}));
  for (const Batch& of : ragged) EXPECT_EQ(of["image"].offsets().size(), static_cast<size_t>(of.size()) + 1);
  const auto replacing = stream(torn, OnError::replace);
  EXPECT_EQ(kind_of([&] { replacing->next(batch); }, "replace"), ErrorKind::invalid_argument);
}

TEST(ShardErrors, OfStreamOptions) {
  const auto opening = [](auto change) {
    return [change] {
      StreamOptions options;
      change(options);
      stream_shards({"a.tar"}, kSmall, options);
    };
  };
  const ErrorKind invalid = ErrorKind::invalid_argument;
  EXPECT_EQ(kind_of(opening([](StreamOptions& o) { o.rank = 1; }), "rank is 1 of 1"), invalid);
  EXPECT_EQ(kind_of(opening([](StreamOptions& o) { o.ranks = 0; }), "of 0"), invalid);
  EXPECT_EQ(kind_of(opening([](StreamOptions& o) { o.shuffle_buffer = -1; }), "-1"), invalid);
  EXPECT_EQ(kind_of(opening([](StreamOptions& o) { o.shuffle_buffer = INT64_MAX; }), "2^62"), invalid);
  EXPECT_EQ(kind_of([] { Loader(stream_shards({"a.tar"}, kSmall), {.batch_size = 1 << 25}); }, "batch_size"),
            invalid);
  EXPECT_EQ(kind_of(opening([](StreamOptions& o) { o.image_suffixes = {}; }), "suffixes"), invalid);
  EXPECT_EQ(kind_of([] { stream_shards({}, kSmall); }, "no shards"), invalid);
  LoaderOptions shuffled;
  shuffled.shuffle = true;
  EXPECT_EQ(kind_of([&] { Loader(stream_shards({"a.tar"}, kSmall), shuffled); }, "stream"), invalid);
}

TEST(ShardErrors, OfWhatIsNoIndexedSample) {
  const ScratchFolder folder;
  const auto opening = [&](const std::string& path) { return [path] { indexed_shards({path}, kSmall); }; };
  EXPECT_EQ(kind_of(opening(folder / "none-{0..2}.tar"), "none-0.tar"), ErrorKind::not_found);
  EXPECT_EQ(kind_of(opening(folder.write("a.tar.gz", std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10) + "xx")),
                    "a.tar.gz"),
            ErrorKind::unavailable);
  EXPECT_EQ(kind_of(opening(folder.write("b.tar", tar_file({{"7.cls", "3"}}))), "sample '7' has no jpg"),
            ErrorKind::corrupt_data);
  EXPECT_EQ(kind_of(opening(folder.write("c.tar", tar_file({{"7.jpg", picture()}}))), "sample '7'"),
            ErrorKind::corrupt_data);
  EXPECT_EQ(kind_of(opening(folder.write("d.tar", tar_file({{"7.jpg", picture()}, {"7.cls", "cat"}}))),
                    "no whole number"),
            ErrorKind::corrupt_data);
  EXPECT_EQ(kind_of(opening(folder.write("e.tar", "this is no archive, but a few words")), "e.tar"),
            ErrorKind::corrupt_data);
  EXPECT_EQ(kind_of(opening("s3://bucket/a.tar"), "no local file"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { indexed_shards({}, kSmall); }, "no shards"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { indexed_shards({folder / "b.tar"}, kSmall, {.image_suffixes = {}}); }, "suffixes"),
            ErrorKind::invalid_argument);
}

TEST(ShardLists, AreWrittenShort) {
  const ScratchFolder folder;
  for (const char* name : {"a/x1.tar", "a/x3.tar", "b/x1.tar", "b/x3.tar", "{c}.tar", "d.tar"})
    folder.write(name, shard(0, 1));
  EXPECT_EQ(indexed_shards({folder / "{a,b}/x{1..4..2}.tar"}, kSmall).size(), 4);
  EXPECT_EQ(indexed_shards({folder / "{c}.tar"}, kSmall).size(), 1);
  EXPECT_EQ(indexed_shards({folder / "{d..d}.tar", folder / "\\{c\\}.tar"}, kSmall).size(), 2);
  EXPECT_EQ(kind_of([&] { indexed_shards({folder / "{1..99999999}.tar"}, kSmall); }, "more than"),
            ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace millrace
