// library_side photos|rows|shards|tokens PATH THREADS: the C++ library's loader, as docs/cpp.md has it.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "millrace/millrace.h"
#include "side.h"

namespace {

using namespace millrace;

Dataset dataset_of(const std::string& scenario, const std::string& path) {
  const Transforms crops{RandomResizedCrop{224, 224}, HorizontalFlip{}, ToTensor{},
                         Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}};
  if (scenario == "photos") return image_folder(path, crops);
  if (scenario == "shards") {
    StreamOptions stream;
    stream.shuffle_shards = true, stream.shuffle_buffer = 1000, stream.seed = 1;
    return stream_shards({path}, crops, stream);
  }
  if (scenario == "tokens") return token_windows({path}, {.length = 2048});
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<float> values(static_cast<size_t>(file.tellg()) / sizeof(float));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
  if (!file) throw std::runtime_error("cannot read " + path);
  return array_rows({array_of("row", std::move(values), {16})});
}

int64_t batch_size_of(const std::string& scenario) {
  return scenario == "rows" ? 256 : scenario == "tokens" ? 16 : 128;
}

}  // namespace

int main(int count, char** words) try {
  if (count != 4) throw std::invalid_argument("usage: library_side photos|rows|shards|tokens PATH THREADS");
  const std::string scenario = words[1];
  Loader loader(dataset_of(scenario, words[2]), {.batch_size = batch_size_of(scenario),
                                                 .shuffle = scenario != "shards",
                                                 .threads = std::atoi(words[3]),
                                                 .seed = 1});
  return side::serve([&](const side::Visit& visit) {
    for (const Batch& batch : loader) {
      side::Batch seen{batch.size(), {}};
      for (const Field& field : batch.fields()) seen.fields.push_back({field.data(), field.size_bytes()});
      visit(seen);
    }
  });
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
