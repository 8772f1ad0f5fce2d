// The mean and the deviation of each colour in a folder of photos, for Normalize: computed on a device, from
// batches that are copied there while the one before is summed up.
//
//   device_batches demo_data/photos [DEVICE]        # cpu, cuda, cuda:1, ...; cpu when left out
//
// On the CPU nothing is copied: the program is the same with and without an accelerator.
#include <ATen/ATen.h>

#include <cstdint>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

#include "millrace/millrace.h"
#include "millrace/torch.h"

int main(int count, char** words) try {
  using namespace millrace;
  if (count < 2 || count > 3) throw std::runtime_error("usage: device_batches PHOTOS [DEVICE]");
  const at::Device device(count > 2 ? words[2] : "cpu");

  const Dataset photos =
      image_folder(words[1], {Resize{.height = 256}, CenterCrop{224, 224}, ToTensor{OutputType::u8}});
  LoaderOptions options{.batch_size = 64, .threads = 2, .on_error = OnError::skip};
  if (!device.is_cpu()) options.memory = pinned_memory();
  DeviceLoader batches(Loader(photos, options), device);

  // Sums stay on the device; the host waits for them once, at the end.
  at::Tensor sum = at::zeros({3}, at::TensorOptions().dtype(at::kDouble).device(device)),
             squares = sum.clone();
  int64_t pixels = 0;
  for (const DeviceBatch& batch : batches) {
    const at::Tensor values = batch["image"].to(at::kDouble) / 255;
    sum += values.sum({0, 2, 3});
    squares += values.square().sum({0, 2, 3});
    pixels += values.numel() / 3;
  }
  if (pixels == 0) throw std::runtime_error("there are no photos in " + std::string(words[1]));
  const at::Tensor mean = sum / pixels, deviation = (squares / pixels - mean.square()).clamp_min(0).sqrt();
  const auto print = [](const char* name, const at::Tensor& of) {
    std::cout << name;
    for (int64_t colour = 0; colour < 3; ++colour) std::cout << " " << of[colour].item<double>();
    std::cout << "\n";
  };
  print("mean", mean);
  print("deviation", deviation);
  for (const LeftOut& sample : batches.loader().stats().errors)
    std::cerr << "left out: " << sample.reason << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << "device_batches: " << error.what() << "\n";
  return 1;
}
