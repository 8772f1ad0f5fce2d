// A loader for tests/python/test_cpp_states.py and test_cpp_datasets.py, which compare it with Python's:
// prints its batches and states as JSON, and goes on from states.
//
//   api_states DATA SAMPLER THREADS [KEY=NUMBER ...]
//     runs two epochs: a line for each batch, and for what is around them
//   api_states DATA SAMPLER THREADS resume [KEY=NUMBER ...]
//     for each state on a line of the input: the rest of its epoch, and another
//   api_states draws
//     for each line "KIND SEED NUM REPLACEMENT N WEIGHT...": the indices of two epochs
//
// DATA: "arrays", "own", "windows:FILE", "packed:FILE", "shards:PATTERN", "stream:PATTERN", or a folder of
// pictures. SAMPLER: see sampler_named(). KEY: see Case.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "millrace/millrace.h"

namespace {

using namespace millrace;

// What the test chose; test_cpp_states.py has the same.
struct Case {
  int64_t samples = 23, batch = 4, drop_last = 0;  // of the loader
  int64_t rank = 0, ranks = 1, rank_drop = 0;      // of the sampler, as what follows
  int64_t shuffled = 1;                            // of a stream's shards
  int64_t num = 30, buffer = 4, seed = 3;
  int64_t steps = -1, first = 0;  // of EqualSteps, if 0 or more

  void set(const std::string& setting) {
    const size_t equals = setting.find('=');
    const std::string key = setting.substr(0, equals);
    for (const auto& [name, value] : {std::pair{"samples", &samples},
                                      {"batch", &batch},
                                      {"drop_last", &drop_last},
                                      {"rank", &rank},
                                      {"ranks", &ranks},
                                      {"rank_drop", &rank_drop},
                                      {"num", &num},
                                      {"buffer", &buffer},
                                      {"seed", &seed},
                                      {"steps", &steps},
                                      {"shuffled", &shuffled},
                                      {"first", &first}})
      if (key == name) {
        *value = std::stoll(setting.substr(equals + 1));
        return;
      }
    throw std::invalid_argument(setting);
  }
  Ranks part() const { return {static_cast<int>(rank), static_cast<int>(ranks), rank_drop != 0}; }
};

uint32_t crc32(const void* data, size_t bytes) {
  uint32_t sum = 0xFFFFFFFFu;
  for (size_t i = 0; i < bytes; ++i) {
    sum ^= static_cast<const uint8_t*>(data)[i];
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0u);
  }
  return ~sum;
}

// "KIND:PATH"; test_cpp_datasets.py has the same.
std::optional<Dataset> dataset_of_kind(const std::string& name, const Case& chosen) {
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
  if (kind == "stream") {
    StreamOptions options;
    options.shuffle_shards = chosen.shuffled != 0;
    options.shuffle_buffer = chosen.buffer;
    options.seed = static_cast<uint64_t>(chosen.seed);
    options.rank = static_cast<int>(chosen.rank);
    options.ranks = static_cast<int>(chosen.ranks);
    return stream_shards({path}, {RandomResizedCrop{24, 24}, HorizontalFlip{}, ToTensor{}}, options);
  }
  if (kind == "shards")
    return indexed_shards({path}, {RandomResizedCrop{24, 24}, HorizontalFlip{}, ToTensor{}});
  return std::nullopt;
}

// The rows of "arrays", written one by one.
struct OwnRows {
  int64_t samples;
  int64_t size() const { return samples; }
  std::vector<FieldSpec> fields() const { return {{"x", DType::f32, {3}}, {"y", DType::i64, {}}}; }
  void read(const SampleKey& key, RowWriter& out) const {
    const auto x = out.row<float>(0);
    std::iota(x.begin(), x.end(), static_cast<float>(3 * key.index));
    out.row<int64_t>(1)[0] = key.index;
  }
  std::string python_class() const { return "torch.utils.data.dataset.TensorDataset"; }
};

Dataset dataset_named(const std::string& name, const Case& chosen) {
  if (auto dataset = dataset_of_kind(name, chosen)) return std::move(*dataset);
  if (name == "own") return make_dataset(OwnRows{chosen.samples});
  if (name != "arrays")
    return image_folder(name, {RandomResizedCrop{24, 24}, HorizontalFlip{},
                               ColorJitter{Range{0.6, 1.4}, Range{0.6, 1.4}, Range{0.6, 1.4}}, ToTensor{},
                               Normalize{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.4}}});
  const auto rows = static_cast<size_t>(chosen.samples);
  std::vector<float> x(rows * 3);
  std::iota(x.begin(), x.end(), 0.0f);
  std::vector<int64_t> y(rows);
  std::iota(y.begin(), y.end(), 0);
  return array_rows({array_of("x", x, {3}), array_of("y", y)});
}

void sampler_named(const std::string& name, const Case& chosen, LoaderOptions& options) {
  const int64_t n = chosen.samples;
  const auto seed = static_cast<uint64_t>(chosen.seed);
  options.batch_size = chosen.batch;
  options.drop_last = chosen.drop_last != 0;
  if (chosen.steps >= 0)
    options.equal_steps = {chosen.steps,
                           chosen.first != 0 ? EqualSteps::Again::first : EqualSteps::Again::last};
  std::vector<double> weights;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < n; ++i) {
    weights.push_back(static_cast<double>((i + 1) % 5) / 3);
    labels.push_back(i % 3 == 0 ? 7 : i % 2);
  }
  const std::vector<int64_t> lengths{n / 4, 0, n / 2, n - n / 4 - n / 2};
  const Ranks part = chosen.part();
  if (name == "shuffle") options.shuffle = true;
  if (name == "skip") options.shuffle = true, options.on_error = OnError::skip;
  if (name == "rounds") options.sampler = random_sampler(n, false, chosen.num);
  if (name == "replaced") options.sampler = random_sampler(n, true, chosen.num);
  if (name == "torch_weighted") options.sampler = weighted_random_sampler(weights, chosen.num);
  if (name == "torch_weighted_once")
    options.sampler = weighted_random_sampler(weights, std::min(chosen.num, n), false);
  if (name == "distributed") options.sampler = distributed_sampler(n, part, seed);
  if (name == "in_ranks") options.sampler = distributed_sampler(n, part, 0, false);
  if (name == "permutation") options.sampler = permutation_sampler(n, seed, part);
  if (name == "weighted") options.sampler = weighted_sampler(weights, chosen.num, true, seed, part);
  if (name == "weighted_once")
    options.sampler = weighted_sampler(weights, std::min(chosen.num, n / 2), false, seed, part);
  if (name == "mixture")
    options.sampler = mixture_sampler(lengths, {0.5, 0, 0.3, 1.25}, chosen.num, seed, true, part);
  if (name == "mixture_in_order")
    options.sampler = mixture_sampler(lengths, {2, 0, 1, M_PI}, {}, seed, false, part);
  if (name == "shards") options.sampler = shard_shuffle(lengths, seed, part);
  if (name == "two_tier") options.sampler = two_tier_shuffle(lengths, chosen.buffer, seed, part);
  if (name == "stratified" || name == "proportional") {
    options.batch_size = 1;
    options.drop_last = false;
    options.batch_sampler =
        stratified_batches(labels, chosen.batch, seed, part,
                           name == "stratified" ? ClassShares::balanced : ClassShares::proportional);
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

struct Nothing {
  int64_t samples;
  int64_t size() const { return samples; }
  std::vector<FieldSpec> fields() const { return {{"x", DType::u8, {}}}; }
  void read(const SampleKey&, RowWriter& out) const { out.row<uint8_t>(0)[0] = 0; }
};

void print_draws() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string kind, weight;
    uint64_t seed = 0;
    int64_t count = 0, n = 0;
    bool replacement = false;
    words >> kind >> seed >> count >> replacement >> n;
    std::vector<double> weights;
    while (words >> weight) weights.push_back(std::strtod(weight.c_str(), nullptr));
    LoaderOptions options{.batch_size = 7, .seed = seed};
    options.sampler = kind == "random" ? random_sampler(n, replacement, count)
                                       : weighted_random_sampler(weights, count, replacement);
    Loader loader(make_dataset(Nothing{n}), options);
    std::cout << "[";
    for (int epoch = 0; epoch < 2; ++epoch) {
      const char* between = epoch > 0 ? ", [" : "[";
      for (const Batch& batch : loader)
        for (const int64_t index : batch.indices()) std::cout << std::exchange(between, ", ") << index;
      std::cout << "]";
    }
    std::cout << "]\n";
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  try {
    if (words == std::vector<std::string>{"draws"}) {
      print_draws();
      return 0;
    }
    if (words.size() < 3) return 2;
    const bool resumes = words.size() > 3 && words[3] == "resume";
    Case chosen;
    for (size_t i = resumes ? 4 : 3; i < words.size(); ++i) chosen.set(words[i]);
    const Dataset data = dataset_named(words[0], chosen);
    LoaderOptions options;
    options.seed = 1234567890123456789u;
    options.threads = std::stoi(words[2]);
    sampler_named(words[1], chosen, options);
    const auto make = [&] { return Loader(data, options); };
    if (resumes) {
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
