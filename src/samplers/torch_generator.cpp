#include "samplers/torch_generator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "millrace/error.h"

namespace millrace::samplers {
namespace {

constexpr size_t kWords = MersenneTwister::kWords;

// The bytes of get_state(), as torch has laid them out since its beginnings: the words are 64 bits wide, and
// what follows them was of normal numbers, zero today.
struct State {
  uint64_t seed;
  int32_t left;    // words until the next block is made, and one more
  int32_t seeded;  // 1
  uint64_t next;   // word of the block
  std::array<uint64_t, kWords> words;
  std::array<uint64_t, 5> rest;
};
static_assert(sizeof(State) == TorchGenerator::kStateBytes);

}  // namespace

TorchGenerator::TorchGenerator(uint64_t seed) : seed_(seed), engine_(static_cast<uint32_t>(seed)) {}

int64_t TorchGenerator::base_seed() { return static_cast<int64_t>(random64() & (~uint64_t{0} >> 1)); }

uint32_t TorchGenerator::random() {
  fresh_ = false;
  return engine_();
}

uint64_t TorchGenerator::random64() {
  const uint64_t high = random(), low = random();
  return high << 32 | low;
}

double TorchGenerator::uniform() {
  constexpr uint64_t kBits = uint64_t{1} << 53;
  return static_cast<double>(random64() & (kBits - 1)) / static_cast<double>(kBits);
}

void TorchGenerator::discard(int64_t words) {
  if (words <= 0) return;
  fresh_ = false;
  engine_.discard(static_cast<uint64_t>(words));
}

std::vector<uint8_t> TorchGenerator::state() const {
  State state{};
  std::copy(engine_.words().begin(), engine_.words().end(), state.words.begin());
  state.seed = seed_;
  state.left = fresh_ ? 1 : static_cast<int32_t>(kWords + 1 - engine_.next());
  state.seeded = 1;
  state.next = fresh_ ? 0 : engine_.next();
  std::vector<uint8_t> bytes(sizeof state);
  std::memcpy(bytes.data(), &state, sizeof state);
  return bytes;
}

void TorchGenerator::set_state(std::span<const uint8_t> bytes) {
  State state;
  if (bytes.size() != sizeof state)
    throw Error(ErrorKind::invalid_argument, "the state of torch's generator for the CPU has " +
                                                 std::to_string(sizeof state) + " bytes, not " +
                                                 std::to_string(bytes.size()));
  std::memcpy(&state, bytes.data(), sizeof state);
  const auto is_word = [](uint64_t word) { return word <= 0xFFFFFFFFu; };
  if (state.seeded != 1 || state.left < 1 || state.left > static_cast<int32_t>(kWords) ||
      !std::all_of(state.words.begin(), state.words.end(), is_word))
    throw Error(ErrorKind::invalid_argument, "these bytes are no state of torch's generator for the CPU");
  std::array<uint32_t, kWords> words;
  std::transform(state.words.begin(), state.words.end(), words.begin(),
                 [](uint64_t word) { return static_cast<uint32_t>(word); });
  engine_ = MersenneTwister(words, kWords + 1 - static_cast<size_t>(state.left));
  seed_ = state.seed;
  fresh_ = state.left == 1 && state.next == 0;
}

}  // namespace millrace::samplers
