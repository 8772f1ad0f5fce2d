// Stands in for libFuzzer where the compiler has none: runs the fuzz target over all files of the given
// folders, as they are and with a fixed sequence of mutations.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

// In a buffer of exactly the input's size, for the sanitizers.
void run(const Bytes& bytes) {
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), exact.get());
  LLVMFuzzerTestOneInput(exact.get(), bytes.size());
}

Bytes mutate(Bytes bytes, std::mt19937& random) {
  const auto place = [&] { return random() % bytes.size(); };
  for (uint32_t steps = 1 + random() % 5; steps > 0 && !bytes.empty(); --steps) {
    switch (random() % 5) {
      case 0: bytes[place()] ^= static_cast<uint8_t>(1u << random() % 8); break;
      case 1: bytes[place()] = static_cast<uint8_t>(random()); break;
      case 2:
        bytes[std::min<size_t>(place(), random() % 640)] = static_cast<uint8_t>(random());
        break;   // among the tables
      case 3: {  // lose a piece
        const size_t at = place(), length = std::min<size_t>(bytes.size() - at, random() % 64);
        bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(at),
                    bytes.begin() + static_cast<ptrdiff_t>(at + length));
        break;
      }
      default: {  // a marker where none belongs
        const size_t at = place();
        bytes[at] = 0xFF;
        if (at + 1 < bytes.size()) bytes[at + 1] = static_cast<uint8_t>(0xC0 + random() % 0x40);
      }
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kMutations = 100;
  std::mt19937 random(1);
  std::vector<std::filesystem::path> paths;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::directory_iterator(argv[i]))
      if (entry.is_regular_file()) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const Bytes bytes(std::istreambuf_iterator<char>(file), {});
    run(bytes);
    for (int i = 0; i < kMutations; ++i) run(mutate(bytes, random));
  }
  std::printf("%zu files, %d mutations each: no crash\n", paths.size(), kMutations);
  return paths.empty() ? 1 : 0;
}
