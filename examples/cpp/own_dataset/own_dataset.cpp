// A dataset of one's own: the lines of a text file, each as its bytes and its length. Lines differ in length,
// so "bytes" is a ragged field: a batch has all of its bytes behind each other, and where each line begins.
//
//   own_dataset FILE
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "millrace/dataset.h"
#include "millrace/loader.h"

namespace {

struct Lines {
  std::string path;
  std::vector<std::string> lines;

  explicit Lines(std::string file) : path(std::move(file)) {
    std::ifstream text(path);
    if (!text) throw std::runtime_error(path + ": cannot be read");
    for (std::string line; std::getline(text, line);) lines.push_back(line);
  }

  int64_t size() const { return static_cast<int64_t>(lines.size()); }
  std::vector<millrace::FieldSpec> fields() const {
    using millrace::DType;
    return {{.name = "bytes", .dtype = DType::u8, .ragged = true}, {.name = "length", .dtype = DType::i64}};
  }
  // Threads of the loader call it, several at once.
  void read(const millrace::SampleKey& key, millrace::RowWriter& out) const {
    const std::string& line = lines[key.index];
    if (line.empty()) throw std::runtime_error("an empty line");
    const std::span<uint8_t> bytes = out.ragged<uint8_t>(0, static_cast<int64_t>(line.size()));
    std::memcpy(bytes.data(), line.data(), line.size());
    out.row<int64_t>(1)[0] = static_cast<int64_t>(line.size());
  }
  // What errors call a sample.
  std::string name(int64_t index) const { return path + ":" + std::to_string(index + 1); }
};

}  // namespace

int main(int count, char** words) try {
  using namespace millrace;
  if (count != 2) throw std::runtime_error("usage: own_dataset FILE");
  LoaderOptions options{.batch_size = 4, .shuffle = true, .threads = 2, .seed = 1, .on_error = OnError::skip};
  Loader loader(make_dataset(Lines(words[1])), options);
  for (const Batch& batch : loader) {
    const Field& bytes = batch["bytes"];
    const std::span<const uint8_t> all = bytes.as<uint8_t>();
    const std::span<const int64_t> lengths = batch["length"].as<int64_t>();
    for (int64_t i = 0; i < batch.size(); ++i) {
      const auto line = all.subspan(bytes.offsets()[i], bytes.offsets()[i + 1] - bytes.offsets()[i]);
      std::cout << batch.number() << " " << batch.indices()[i] << " " << lengths[i] << " "
                << std::string(line.begin(), line.end()) << "\n";
    }
  }
  for (const LeftOut& sample : loader.stats().errors)
    std::cout << "left out " << sample.index << ": " << sample.reason << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << "own_dataset: " << error.what() << "\n";
  return 1;
}
