// A loader for tests/python/test_cpp_states.py and test_cpp_datasets.py, which compare it with Python's:
// prints its batches and states as JSON, and goes on from states.
//
//   api_states DATA SAMPLER THREADS            runs two epochs: a line for each batch, and for what is around
//   them api_states DATA SAMPLER THREADS resume     for each state on a line of the input: the rest of its
//   epoch, and another
//
// DATA: "arrays", "windows:FILE", "packed:FILE", "shards:PATTERN", or a folder of pictures. SAMPLER: see
// sampler_named().
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/millrace.h"

namespace {

using namespace millrace;

constexpr int64_t kSamples = 23;
constexpr int64_t kBatch = 4;

uint32_t crc32(const void* data, size_t bytes) {
  uint32_t sum = 0xFFFFFFFFu;
  for (size_t i = 0; i < bytes; ++i) {
    sum ^= static_cast<const uint8_t*>(data)[i];
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0u);
  }
  return ~sum;
}

// "KIND:PATH"; test_cpp_datasets.py has the same.
std::optional<Dataset> dataset_of_kind(const std::string& name) {
  const size_t colon = name.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const std::string kind = name.substr(0, colon), path = name.substr(colon + 1);
  if (kind == "windows")
    return token_windows({path, path}, {.length = 16, .stride = 13, .vocabulary = 50000});
  if (kind == "packed") {
    std::vector<int64_t> offsets{0};
    for (int64_t i = 0; offsets.back() + i % 29 <= 1000; ++i) offsets.push_back(offsets.back() + i % 29);
    return packed_documents(path, offsets, DType::u16,
                            {.length = 32,
                             .separator = 50000,
                             .pad = 7,
                             .ignore = -1,
                             .positions = true,
                             .documents = true,
                             .seed = 5});
  }
  if (kind == "shards")
    return indexed_shards({path}, {RandomResizedCrop{24, 24}, HorizontalFlip{}, ToTensor{}});
  return std::nullopt;
}

Dataset dataset_named(const std::string& name) {
  if (auto dataset = dataset_of_kind(name)) return std::move(*dataset);
  if (name != "arrays")
    return image_folder(name, {RandomResizedCrop{24, 24}, HorizontalFlip{},
                               ColorJitter{Range{0.6, 1.4}, Range{0.6, 1.4}, Range{0.6, 1.4}}, ToTensor{},
                               Normalize{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.4}}});
  std::vector<float> x(kSamples * 3);
  std::iota(x.begin(), x.end(), 0.0f);
  std::vector<int64_t> y(kSamples);
  std::iota(y.begin(), y.end(), 0);
  return array_rows({array_of("x", x, {3}), array_of("y", y)});
}

void sampler_named(const std::string& name, LoaderOptions& options) {
  options.batch_size = kBatch;
  std::vector<double> weights;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < kSamples; ++i) {
    weights.push_back(static_cast<double>(i % 5));
    labels.push_back(i % 3 == 0 ? 7 : i % 2);
  }
  if (name == "shuffle") options.shuffle = true;
  if (name == "shuffle_drop") options.shuffle = options.drop_last = true;
  if (name == "skip") options.shuffle = true, options.on_error = OnError::skip;
  if (name == "distributed") options.sampler = distributed_sampler(kSamples, {1, 2}, 3);
  if (name == "in_ranks") options.sampler = distributed_sampler(kSamples, {1, 2}, 0, false);
  if (name == "permutation") options.sampler = permutation_sampler(kSamples, 5, {0, 2, true});
  if (name == "weighted") options.sampler = weighted_sampler(weights, 30, true, 9, {1, 2});
  if (name == "weighted_once") options.sampler = weighted_sampler(weights, 15, false, 9);
  if (name == "shards") options.sampler = shard_shuffle({5, 0, 11, 7}, 2);
  if (name == "two_tier") options.sampler = two_tier_shuffle({5, 0, 11, 7}, 4, 2, {0, 3});
  if (name == "stratified") {
    options.batch_size = 1;
    options.batch_sampler = stratified_batches(labels, kBatch, 4, {1, 2});
  }
  if (name == "proportional") {
    options.batch_size = 1;
    options.batch_sampler = stratified_batches(labels, kBatch, 4, {}, ClassShares::proportional);
  }
}

std::string written(const Batch& batch) {
  std::string text = "{\"number\": " + std::to_string(batch.number()) + ", \"indices\": [";
  for (size_t i = 0; i < batch.indices().size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(batch.indices()[i]);
  text += "], \"sums\": [";
  for (size_t i = 0; i < batch.fields().size(); ++i) {
    const Field& field = batch.fields()[i];
    text += (i > 0 ? ", " : "") + std::to_string(crc32(field.data(), field.size_bytes()));
  }
  return text + "]}";
}

void run(Loader& loader) {
  Batch batch;
  std::cout << "{\"state\": " << loader.state() << "}\n";
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (loader.next(batch))
      std::cout << "{\"batch\": " << written(batch) << ", \"state\": " << loader.state() << "}\n";
    std::cout << "{\"state\": " << loader.state() << "}\n";
  }
}

void resume(const std::function<Loader()>& make) {
  for (std::string line; std::getline(std::cin, line);) {
    Loader loader = make();
    loader.load_state(line);
    Batch batch;
    std::cout << "[";
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::cout << (epoch > 0 ? ", [" : "[");
      for (bool first = true; loader.next(batch); first = false)
        std::cout << (first ? "" : ", ") << written(batch);
      std::cout << "]";
    }
    std::cout << "]\n";
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return 2;
  try {
    const Dataset data = dataset_named(arguments[1]);
    LoaderOptions options;
    options.seed = 1234567890123456789u;
    options.threads = std::atoi(arguments[3]);
    sampler_named(arguments[2], options);
    const auto make = [&] { return Loader(data, options); };
    if (count > 4) {
      resume(make);
    } else {
      Loader loader = make();
      run(loader);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
