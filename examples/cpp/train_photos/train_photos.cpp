// Trains a small network on a folder of class folders, with libtorch: examples/train_image_folder.py in C++.
//
//   train_photos demo_data/photos [epochs] [threads]
//
// The last line is the share of the held-out photos that the network gets right.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/millrace.h"
#include "millrace/torch.h"

namespace {

constexpr int kSize = 64;          // pixels
constexpr double kHoldOut = 0.15;  // of the photos, for validation
constexpr double kRate = 4e-3;     // the highest learning rate
const std::vector<double> kMean{0.485, 0.456, 0.406}, kStd{0.229, 0.224, 0.225};

struct Files {
  std::vector<std::string> paths;
  std::vector<int64_t> labels;
};

// The same split on every run: files to train with, and those that are held out.
std::pair<Files, Files> split(const millrace::ImageFolder& all) {
  std::vector<int64_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(0));
  const auto held_out = std::max<size_t>(1, std::llround(kHoldOut * static_cast<double>(order.size())));
  std::pair<Files, Files> parts;
  for (size_t i = 0; i < order.size(); ++i) {
    Files& part = i < held_out ? parts.second : parts.first;
    part.paths.push_back(all.path(order[i]));
    part.labels.push_back(all.labels()[order[i]]);
  }
  return parts;
}

// Four strided convolutions and a linear layer.
torch::nn::Sequential small_network(int64_t classes) {
  namespace nn = torch::nn;
  nn::Sequential network;
  int64_t channels = 3;
  for (const int64_t width : {32, 64, 96, 128}) {
    network->push_back(nn::Conv2d(nn::Conv2dOptions(channels, width, 3).stride(2).padding(1).bias(false)));
    network->push_back(nn::BatchNorm2d(width));
    network->push_back(nn::ReLU());
    channels = width;
  }
  network->push_back(nn::AdaptiveAvgPool2d(1));
  network->push_back(nn::Flatten());
  network->push_back(nn::Linear(channels, classes));
  return network;
}

double accuracy(torch::nn::Sequential& network, millrace::DeviceLoader& loader) {
  const torch::NoGradGuard no_grad;
  network->eval();
  int64_t right = 0, seen = 0;
  for (const millrace::DeviceBatch& batch : loader) {
    right += network->forward(batch["image"]).argmax(1).eq(batch["label"]).sum().item<int64_t>();
    seen += batch["label"].size(0);
  }
  return static_cast<double>(right) / static_cast<double>(seen);
}

int run(const std::string& root, int epochs, int threads) {
  using namespace millrace;
  const torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);
  const Transforms augmented{RandomResizedCrop{.height = kSize, .width = kSize, .scale = {0.35, 1}},
                             HorizontalFlip{}, ToTensor{}, Normalize{kMean, kStd}};
  const Transforms plain{Resize{.height = kSize}, CenterCrop{kSize, kSize}, ToTensor{},
                         Normalize{kMean, kStd}};

  const ImageFolder photos = image_folder(root, plain);
  const auto [train, held_out] = split(photos);
  LoaderOptions options{.batch_size = 64, .threads = threads, .seed = 1};
  if (!device.is_cpu()) options.memory = pinned_memory();
  DeviceLoader val_loader(Loader(image_files(held_out.paths, held_out.labels, plain), options), device);
  options.shuffle = true;
  options.drop_last = static_cast<int64_t>(train.paths.size()) >= options.batch_size;
  DeviceLoader train_loader(Loader(image_files(train.paths, train.labels, augmented), options), device);

  torch::manual_seed(0);
  torch::nn::Sequential network = small_network(static_cast<int64_t>(photos.classes().size()));
  network->to(device);
  torch::optim::AdamW optimizer(network->parameters(), torch::optim::AdamWOptions(kRate).weight_decay(1e-2));
  const double steps = static_cast<double>(epochs * train_loader.loader().size());
  int64_t step = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    network->train();
    for (const DeviceBatch& batch : train_loader) {
      // Up for three tenths of the steps, then down to nothing.
      const double part = static_cast<double>(++step) / steps;
      const double rate = kRate * (part < 0.3 ? part / 0.3 : 0.5 + 0.5 * std::cos(M_PI * (part - 0.3) / 0.7));
      for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
      const torch::Tensor loss =
          torch::nn::functional::cross_entropy(network->forward(batch["image"]), batch["label"]);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
    std::cout << "epoch " << epoch + 1 << ": " << accuracy(network, val_loader) << std::endl;
  }
  std::cout << "accuracy " << accuracy(network, val_loader) << std::endl;
  return 0;
}

}  // namespace

int main(int count, char** words) try {
  if (count < 2) {
    std::cerr << "usage: train_photos FOLDER [epochs] [threads]\n";
    return 2;
  }
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return run(words[1], count > 2 ? std::stoi(words[2]) : 8, count > 3 ? std::stoi(words[3]) : threads);
} catch (const std::exception& error) {
  std::cerr << "train_photos: " << error.what() << "\n";
  return 1;
}
