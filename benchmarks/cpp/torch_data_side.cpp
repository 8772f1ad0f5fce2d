// torch_data_side photos|rows|rows_indexed|tokens PATH THREADS: the same batches by torch::data, the way its
// documentation and tutorials show: a dataset whose get() makes one sample, Stack, a RandomSampler.
// rows_indexed: get_batch() takes all rows of a batch at once.
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "photo_sample.h"
#include "side.h"

namespace {

namespace data = torch::data;
using Sample = data::Example<>;

class Photos : public data::datasets::Dataset<Photos> {
 public:
  explicit Photos(const std::string& root) {
    std::vector<std::filesystem::path> classes;
    for (const auto& entry : std::filesystem::directory_iterator(root))
      if (entry.is_directory()) classes.push_back(entry.path());
    std::sort(classes.begin(), classes.end());
    for (size_t label = 0; label < classes.size(); ++label)
      for (const auto& entry : std::filesystem::directory_iterator(classes[label]))
        files_.emplace_back(entry.path().string(), static_cast<int64_t>(label));
    std::sort(files_.begin(), files_.end());
  }

  Sample get(size_t index) override {
    thread_local std::mt19937 random{std::random_device{}()};
    const auto& [path, label] = files_[index];
    return {photo_sample(path, random), torch::tensor(label)};
  }

  std::optional<size_t> size() const override { return files_.size(); }

 private:
  std::vector<std::pair<std::string, int64_t>> files_;
};

torch::Tensor mapped(const std::string& path, torch::Dtype type) {
  const auto count = static_cast<int64_t>(std::filesystem::file_size(path) / torch::elementSize(type));
  return torch::from_file(path, false, count, type);
}

class Tokens : public data::datasets::Dataset<Tokens> {
 public:
  explicit Tokens(const std::string& path) : tokens_(mapped(path, torch::kShort)) {}

  Sample get(size_t index) override {
    const torch::Tensor window =
        tokens_.narrow(0, static_cast<int64_t>(index) * kLength, kLength + 1).to(torch::kLong);
    return {window.narrow(0, 0, kLength), window.narrow(0, 1, kLength)};
  }

  std::optional<size_t> size() const override { return (tokens_.numel() - 1) / kLength; }

 private:
  static constexpr int64_t kLength = 2048;
  torch::Tensor tokens_;
};

class IndexedRows : public data::datasets::BatchDataset<IndexedRows, torch::Tensor> {
 public:
  explicit IndexedRows(torch::Tensor rows) : rows_(std::move(rows)) {}

  torch::Tensor get_batch(torch::ArrayRef<size_t> indices) override {
    const std::vector<int64_t> chosen(indices.begin(), indices.end());
    return rows_.index_select(0, torch::tensor(chosen));
  }

  std::optional<size_t> size() const override { return rows_.size(0); }

 private:
  torch::Tensor rows_;
};

side::Batch seen(const std::vector<torch::Tensor>& fields) {
  side::Batch batch{fields.front().size(0), {}};
  for (const torch::Tensor& field : fields) {
    if (!field.is_contiguous()) throw std::runtime_error("a field is not dense");
    batch.fields.push_back({field.data_ptr(), field.nbytes()});
  }
  return batch;
}

std::vector<torch::Tensor> fields_of(const torch::Tensor& batch) { return {batch}; }
std::vector<torch::Tensor> fields_of(const data::TensorExample& batch) { return {batch.data}; }
std::vector<torch::Tensor> fields_of(const Sample& batch) { return {batch.data, batch.target}; }

template <class Dataset>
int serve(Dataset dataset, size_t batch_size, size_t threads) {
  const auto options = data::DataLoaderOptions().batch_size(batch_size).workers(threads);
  auto loader = data::make_data_loader<data::samplers::RandomSampler>(std::move(dataset), options);
  return side::serve([&](const side::Visit& visit) {
    for (auto& batch : *loader) visit(seen(fields_of(batch)));
  });
}

}  // namespace

int main(int count, char** words) try {
  if (count != 4)
    throw std::invalid_argument("usage: torch_data_side photos|rows|rows_indexed|tokens PATH THREADS");
  const std::string scenario = words[1], path = words[2];
  const auto threads = static_cast<size_t>(std::atoi(words[3]));
  at::set_num_threads(
      1);  // of each operation: pictures are too small for more, and the loader's threads have the CPUs
  if (scenario == "photos") return serve(Photos(path).map(data::transforms::Stack<>()), 128, threads);
  if (scenario == "tokens") return serve(Tokens(path).map(data::transforms::Stack<>()), 16, threads);
  const torch::Tensor rows = mapped(path, torch::kFloat).clone().view({-1, 16});
  if (scenario == "rows_indexed") return serve(IndexedRows(rows), 256, threads);
  return serve(data::datasets::TensorDataset(rows).map(data::transforms::Stack<data::TensorExample>()), 256,
               threads);
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
