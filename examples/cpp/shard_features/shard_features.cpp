// Features of the pictures in tar shards: a TorchScript network makes them, and a line for each
// picture has its label and its features.
//
//   shard_features MODEL.pt SIZE "train-{000..003}.tar" > features.txt
//
// The pictures are resized to SIZE x SIZE. What cannot be read is left out, and told at the end.
#include <torch/script.h>

#include <cstdint>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "millrace/millrace.h"
#include "millrace/torch.h"

int main(int count, char** words) try {
  using namespace millrace;
  if (count != 4) throw std::runtime_error("usage: shard_features MODEL.pt SIZE SHARDS");
  const int side = std::stoi(words[2]);
  torch::jit::Module network = torch::jit::load(words[1]);
  network.eval();
  const torch::NoGradGuard no_grad;

  const Dataset shards = indexed_shards({words[3]}, {Resize{.height = side, .width = side}, ToTensor{}});
  Loader loader(shards, {.batch_size = 16, .threads = 2, .on_error = OnError::skip});
  for (const Batch& batch : loader) {
    const torch::Tensor features = network.forward({as_torch(batch["image"])}).toTensor().contiguous();
    const auto rows = features.accessor<float, 2>();
    const auto labels = batch["label"].as<int64_t>();
    for (int64_t i = 0; i < batch.size(); ++i) {
      std::cout << labels[i];
      for (int64_t j = 0; j < rows.size(1); ++j) std::cout << " " << rows[i][j];
      std::cout << "\n";
    }
  }
  for (const LeftOut& sample : loader.stats().errors) std::cerr << "left out: " << sample.reason << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << "shard_features: " << error.what() << "\n";
  return 1;
}
