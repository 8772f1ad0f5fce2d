// ChunkDecoder: every order of filters, sizes that leave something over, and every kind of damage.
#include "codecs/chunk_filters.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "filtered_chunks.h"

namespace millrace::arrays {
namespace {

using Kind = codecs::ChunkFilter::Kind;

Bytes some_bytes(size_t size, unsigned seed = 1) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i % 7 == 0 ? random() : i / 5);
  return bytes;
}

// Into memory of exactly the size, so that the address sanitizer sees every byte too many.
const char* decode(const Bytes& stored, std::span<const codecs::ChunkFilter> filters, uint32_t left_out,
                   size_t size, Bytes& plain) {
  codecs::ChunkDecoder decoder;
  const std::unique_ptr<uint8_t[]> exact(new uint8_t[stored.size()]);
  std::copy(stored.begin(), stored.end(), exact.get());
  plain.assign(size, 0xee);
  return decoder.decode({exact.get(), stored.size()}, filters, left_out, plain);
}

TEST(ChunkFilters, EveryOrderAndMask) {
  const codecs::ChunkFilter shuffle{Kind::shuffle, 4}, deflate{Kind::deflate, 1}, sum{Kind::fletcher32, 1};
  const std::vector<std::vector<codecs::ChunkFilter>> pipelines = {{},
                                                                   {deflate},
                                                                   {shuffle},
                                                                   {sum},
                                                                   {shuffle, deflate},
                                                                   {deflate, shuffle},
                                                                   {shuffle, deflate, sum},
                                                                   {sum, shuffle, deflate},
                                                                   {shuffle, sum, deflate},
                                                                   {sum, deflate},
                                                                   {shuffle, shuffle, deflate},
                                                                   {sum, sum},
                                                                   {deflate, sum, shuffle}};
  for (const auto& pipeline : pipelines)
    for (const size_t size : {0, 1, 3, 4, 63, 4096, 70'001})
      for (uint32_t left_out = 0; left_out < 1u << pipeline.size(); ++left_out) {
        const Bytes plain = some_bytes(size);
        Bytes decoded;
        EXPECT_EQ(decode(filtered(plain, pipeline, left_out), pipeline, left_out, size, decoded), nullptr);
        EXPECT_EQ(decoded, plain);
      }
}

TEST(ChunkFilters, EveryElementSize) {
  for (const uint32_t element : {1u, 2u, 3u, 4u, 5u, 8u, 12u, 16u, 17u})
    for (const size_t size : {0, 1, 16, 255, 4099}) {
      const Bytes plain = some_bytes(size);
      Bytes out(size);
      codecs::unshuffle(shuffled(plain, element), element, out.data());
      EXPECT_EQ(out, plain) << element << " " << size;
    }
}

TEST(ChunkFilters, ChecksumsOfLongRunsFoldAsDefined) {
  for (const auto value : {0x00, 0xff, 0x80})
    for (const size_t size : {0, 1, 2, 131'070, 131'071, 4'200'000}) {
      const Bytes plain(size, static_cast<uint8_t>(value));
      const Bytes noted = checked(plain);
      uint32_t sum = 0;
      for (int i = 0; i < 4; ++i)
        sum |= static_cast<uint32_t>(noted[size + static_cast<size_t>(i)]) << (8 * i);
      EXPECT_EQ(codecs::fletcher32(plain), sum) << value << " " << size;
    }
}

TEST(ChunkFilters, OldChecksumsHaveTheirHalvesTurned) {
  const codecs::ChunkFilter sum{Kind::fletcher32, 1};
  const Bytes plain = some_bytes(100);
  Bytes stored = checked(plain), decoded;
  std::swap(stored[100], stored[101]);
  std::swap(stored[102], stored[103]);
  EXPECT_EQ(decode(stored, {&sum, 1}, 0, 100, decoded), nullptr);
  EXPECT_EQ(decoded, plain);
}

TEST(ChunkFilters, DamageIsNamed) {
  const codecs::ChunkFilter deflate{Kind::deflate, 1}, shuffle{Kind::shuffle, 4}, sum{Kind::fletcher32, 1};
  const Bytes plain = some_bytes(4096);
  Bytes decoded;
  const auto why = [&](const Bytes& stored, const codecs::ChunkFilter& filter, size_t size = 4096) {
    const char* reason = decode(stored, {&filter, 1}, 0, size, decoded);
    return std::string(reason ? reason : "");
  };
  Bytes damaged = deflated(plain);
  damaged[damaged.size() / 2] ^= 0x55;
  EXPECT_NE(why(damaged, deflate), "");
  damaged = deflated(plain);
  damaged.resize(damaged.size() / 2);
  EXPECT_EQ(why(damaged, deflate), "it cannot be inflated");
  EXPECT_EQ(why({}, deflate), "it is too short for what it should hold");
  EXPECT_EQ(why(deflated(plain), deflate, 4000), "it inflates to more than its chunk");
  EXPECT_EQ(why(deflated(plain), deflate, 5000), "it inflates to less than its chunk");
  EXPECT_EQ(why(deflated(plain), deflate, size_t{1} << 26), "it is too short for what it should hold");
  EXPECT_EQ(why(plain, shuffle, 4000), "it has another size than its chunk");
  EXPECT_EQ(why(plain, sum), "its checksum (fletcher32) is another");
  EXPECT_EQ(why({1, 2, 3}, sum), "it is too short for its checksum");
  EXPECT_STREQ(decode(plain, {}, 0, 4095, decoded), "it has another size than its chunk");
}

}  // namespace
}  // namespace millrace::arrays
