// Archives cut at every byte and turned at every byte: what is read is right, or the error says where it went
// wrong.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "../tar_bytes.h"
#include "millrace/error.h"
#include "sources/shard_reader.h"

namespace millrace::sources {
namespace {

using namespace tar_bytes;

struct Outcome {
  std::string content;  // names and contents of the files that came whole
  size_t files = 0;
  std::optional<Error> error;
};

Outcome read_shard(const std::string& archive) {
  Outcome read;
  try {
    ShardReader shard(memory(archive));
    for (ShardFile file; shard.next(file); ++read.files) {
      std::string content(static_cast<size_t>(file.entry.size), '\0');
      shard.read({reinterpret_cast<uint8_t*>(content.data()), content.size()});
      read.content += file.entry.name + "=" + content + "\n";
    }
  } catch (const Error& error) {
    read.error = error;
  }
  return read;
}

const std::string kName(150, 'n');
const std::string kEntries[] = {entry("a.jpg", noise(700, 1)), entry("a.cls", "12"),
                                gnu_long(kName + ".jpg") + entry("cut", noise(300, 2)),
                                pax(record("path", kName + ".cls")) + entry("cut", noise(512, 3))};

struct Archive {
  std::string bytes;
  std::vector<size_t> ends;  // of the files, without padding
  Archive() {
    const size_t lengths[] = {512 + 700, 512 + 2, 512 + 512 + 512 + 300, 512 + 512 + 512 + 512};
    for (size_t i = 0; i < 4; ++i) {
      ends.push_back(bytes.size() + lengths[i]);
      bytes += kEntries[i];
    }
    bytes += kEnd;
  }
};
const Archive kArchive;

size_t whole_files(size_t cut) {
  size_t whole = 0;
  while (whole < kArchive.ends.size() && kArchive.ends[whole] <= cut) ++whole;
  return whole;
}

// Whether the archive could end at this byte: between entries, or in its end.
bool may_end(size_t cut) {
  const size_t whole = whole_files(cut),
               behind = whole == 0 ? 0 : (kArchive.ends[whole - 1] + 511) / 512 * 512;
  return whole > 0 && (cut == behind || (whole == 4 && cut >= behind + 512));
}

TEST(TarDamage, PlainCutAtEveryByte) {
  const Outcome all = read_shard(kArchive.bytes);
  ASSERT_EQ(all.files, 4u);
  for (size_t cut = 0; cut < kArchive.bytes.size(); ++cut) {
    const Outcome read = read_shard(kArchive.bytes.substr(0, cut));
    EXPECT_EQ(read.content, all.content.substr(0, read.content.size())) << cut;
    EXPECT_EQ(read.files, whole_files(cut)) << cut;
    ASSERT_EQ(read.error.has_value(), !may_end(cut)) << cut;
    if (!read.error) continue;
    EXPECT_EQ(read.error->kind(), ErrorKind::corrupt_data);
    EXPECT_LE(read.error->offset(), static_cast<int64_t>(cut));
    // The last whole file is the one at fault when only its padding is cut.
    EXPECT_GE(read.error->offset(), static_cast<int64_t>(read.files < 2 ? 0 : kArchive.ends[read.files - 2]))
        << cut;
    EXPECT_EQ(read.error->offset() % 512, 0) << cut;
  }
}

std::string packed_in(const std::string& kind) {
  if (kind == "gzip") return gzip(kArchive.bytes);
  if (kind == "gzip members") return in_pieces(kArchive.bytes, 700, gzip);
  if (kind == "gzip, zeros behind") return gzip(kArchive.bytes) + std::string(1000, '\0');
  if (kind == "zstd") return zstd(kArchive.bytes);
  if (kind == "zstd frames") return in_pieces(kArchive.bytes, 700, zstd);
  if (kind == "zstd, zeros behind") return zstd(kArchive.bytes) + std::string(1000, '\0');
  return std::string("\x50\x2A\x4D\x18\x04\0\0\0abcd", 12) +
         in_pieces(kArchive.bytes, 1000, zstd);  // as pzstd's
}

class TarDamagePacked : public testing::TestWithParam<const char*> {};

TEST_P(TarDamagePacked, CutAtEveryByte) {
  const std::string packed = packed_in(GetParam());
  const Outcome all = read_shard(kArchive.bytes), same = read_shard(packed);
  ASSERT_FALSE(same.error) << same.error->what();
  ASSERT_EQ(same.content, all.content);
  for (size_t cut = 0; cut < packed.size(); ++cut) {
    const Outcome read = read_shard(packed.substr(0, cut));
    EXPECT_EQ(read.content, all.content.substr(0, read.content.size())) << cut;
    if (!read.error) {
      EXPECT_GT(read.files, 0u) << cut;  // between members, where the archive could end, too
      continue;
    }
    EXPECT_EQ(read.error->kind(), ErrorKind::corrupt_data);
    EXPECT_NE(std::string(read.error->what()).find("shard.tar"), std::string::npos);
    EXPECT_GE(read.error->offset(), 0);
  }
}

// Contents may come out wrong before the checksum behind them is seen, but never without an error.
TEST_P(TarDamagePacked, EveryByteTurned) {
  const std::string packed = packed_in(GetParam());
  const Outcome all = read_shard(kArchive.bytes);
  for (size_t at = 0; at < packed.size(); ++at)
    for (const int mask : {0x01, 0x10, 0x80, 0xFF}) {
      std::string damaged = packed;
      damaged[at] = static_cast<char>(damaged[at] ^ mask);
      const Outcome read = read_shard(damaged);
      if (read.error)
        EXPECT_TRUE(read.error->kind() == ErrorKind::corrupt_data ||
                    read.error->kind() == ErrorKind::unavailable)
            << read.error->what();
      else
        ASSERT_EQ(read.content, all.content) << at << " ^ " << mask;
    }
}

INSTANTIATE_TEST_SUITE_P(All, TarDamagePacked,
                         testing::Values("gzip", "gzip members", "gzip, zeros behind", "zstd", "zstd frames",
                                         "zstd, zeros behind", "pzstd"));

// A packed archive that ends in the middle says so even when its last file was there.
TEST(TarDamage, PackedArchivesAreLookedAtToTheirEnd) {
  for (const std::string& packed : {gzip(kArchive.bytes), zstd(kArchive.bytes)}) {
    const Outcome read = read_shard(packed.substr(0, packed.size() - 1));
    EXPECT_EQ(read.files, 4u);
    ASSERT_TRUE(read.error);
    EXPECT_EQ(read.error->offset(), static_cast<int64_t>(packed.size()) - 1);
  }
}

TEST(TarDamage, OtherPackersAreRefusedByName) {
  for (const auto& [magic, name] :
       {std::pair<std::string, std::string>{"BZh91AY", "bzip2"}, {std::string("\xFD\x37zXZ\0", 6), "xz"}}) {
    const Outcome read = read_shard(magic + noise(1000));
    ASSERT_TRUE(read.error);
    EXPECT_EQ(read.error->kind(), ErrorKind::unavailable);
    EXPECT_NE(std::string(read.error->what()).find(name), std::string::npos);
  }
}

}  // namespace
}  // namespace millrace::sources
