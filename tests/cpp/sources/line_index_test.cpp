// LineIndex against a plain splitting of the text, at every size of step; saved, loaded and damaged;
// LineFiles and LineReader over it.
#include "sources/line_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "../scratch_folder.h"
#include "millrace/error.h"
#include "sources/line_files.h"
#include "sources/line_reader.h"

namespace millrace::sources {
namespace {

using Texts = std::vector<std::string>;

class Memory final : public io::ByteSource {
 public:
  explicit Memory(std::string text) : text_(std::move(text)) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(text_.size()); }
  void read_at(int64_t offset, std::span<uint8_t> into) const override {
    if (offset + static_cast<int64_t>(into.size()) > size())
      throw Error(ErrorKind::corrupt_data, "cut", name_, offset);
    std::memcpy(into.data(), text_.data() + offset, into.size());
  }

 private:
  const std::string text_, name_ = "memory";
};

// So large that it cannot be in memory: zeros, but for newlines at the given places.
class Sparse final : public io::ByteSource {
 public:
  Sparse(int64_t size, std::vector<int64_t> newlines) : size_(size), newlines_(std::move(newlines)) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return size_; }
  void read_at(int64_t offset, std::span<uint8_t> into) const override {
    std::fill(into.begin(), into.end(), uint8_t{'x'});
    for (const int64_t at : newlines_)
      if (at >= offset && at < offset + static_cast<int64_t>(into.size()))
        into[static_cast<size_t>(at - offset)] = '\n';
  }

 private:
  const int64_t size_;
  const std::vector<int64_t> newlines_;
  const std::string name_ = "sparse";
};

LineIndex built(const std::shared_ptr<const io::ByteSource>& source, bool keep_blank = false,
                int64_t step = 1 << 20) {
  LineIndexBuilder builder(source, keep_blank);
  while (builder.step(step)) {
  }
  EXPECT_EQ(builder.position(), source->size());
  return builder.finish();
}

// What the index says the lines are, without newlines and blank lines behind them.
Texts lines_of(const std::string& text, const LineIndex& index) {
  Texts lines;
  for (int64_t i = 0; i < index.size(); ++i) {
    const auto range = index.range(i);
    std::string line =
        text.substr(static_cast<size_t>(range.begin), static_cast<size_t>(range.end - range.begin));
    lines.push_back(line.substr(0, line.find('\n')));
  }
  return lines;
}

Texts split(std::string text, bool keep_blank) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  Texts lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (keep_blank || line.find_first_not_of(" \t\r") != std::string::npos) lines.push_back(line);
    at = end + 1;
  }
  return lines;
}

Texts read_all(const std::shared_ptr<const io::ByteSource>& source, bool keep_blank, size_t block,
               int64_t most = 1 << 20) {
  LineReader reader(source, keep_blank, most);
  Texts lines;
  std::vector<LineReader::Line> found;
  while (reader.next(found, block)) {
    EXPECT_LE(found.size(), block);
    for (const auto& line : found) {
      if (line.data == nullptr) {
        lines.push_back("<too long>");
        continue;
      }
      std::string text(reinterpret_cast<const char*>(line.data), line.bytes);
      if (text.ends_with('\n')) text.pop_back();
      lines.push_back(text);
    }
  }
  return lines;
}

TEST(LineIndex, LinesAreThoseOfTheText) {
  const std::string mark = "\xEF\xBB\xBF";
  std::mt19937 random(1);
  Texts texts{"",           "\n",      "a",     "a\n", "a\nb", "\n\na\n\n\nb\n\n",
              "a\r\nb\r\n", " \t\r\n", " \n a", "\r",  "a\r"};
  texts.insert(texts.end(), {mark, mark + "a\nb", mark + "\n"});
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (uint32_t n = random() % 40; n > 0; --n) text += "ab \t\r\n\n"[random() % 7];
    texts.push_back((i % 5 == 0 ? mark : "") + text);
  }
  for (const std::string& text : texts)
    for (const bool keep : {false, true}) {
      const auto source = std::make_shared<Memory>(text);
      const Texts expected = split(text, keep);
      for (const int64_t step : {1, 2, 7, 1 << 20}) {
        const LineIndex index = built(source, keep, step);
        EXPECT_EQ(lines_of(text, index), expected)
            << "step " << step << " of " << ::testing::PrintToString(text);
        for (int64_t i = 1; i < index.size(); ++i) EXPECT_EQ(index.range(i).begin, index.range(i - 1).end);
      }
      for (const size_t block : {1u, 3u, 100u})
        EXPECT_EQ(read_all(source, keep, block), expected) << ::testing::PrintToString(text);
    }
}

TEST(LineIndex, LongLinesAndManyChunks) {
  std::mt19937 random(2);
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += std::string(random() % (i % 50 == 0 ? 900'000 : 3000), 'x') + std::to_string(i) + "\n";
  const auto source = std::make_shared<Memory>(text);
  EXPECT_EQ(lines_of(text, built(source)), split(text, false));
  EXPECT_EQ(read_all(source, false, 64, int64_t{1} << 30), split(text, false));
  Texts expected = split(text, false);
  for (std::string& line : expected)
    if (line.size() >= 2000) line = "<too long>";
  EXPECT_EQ(read_all(source, false, 64, 2000), expected);
}

TEST(LineIndex, FourBytesALineBeyondFourGigabytes) {
  const int64_t gib = int64_t{1} << 30;
  const std::vector<int64_t> newlines{10, 4 * gib - 1, 4 * gib + 1, 4 * gib + 5};
  const auto source = std::make_shared<Sparse>(4 * gib + 20, newlines);
  const LineIndex index = built(source, false, gib);
  ASSERT_EQ(index.size(), 5);
  int64_t begin = 0;
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(index.range(i).begin, begin);
    begin = i < 4 ? newlines[static_cast<size_t>(i)] + 1 : source->size();
    EXPECT_EQ(index.range(i).end, begin);
  }
  EXPECT_EQ(index.memory_bytes(), 5 * 4 + 8u);
}

TEST(LineIndex, SavedLoadedAndDamaged) {
  const ScratchFolder folder;
  const std::string text = "a\n\nbb\nccc", path = folder / "x.lines";
  const LineIndex index = built(std::make_shared<Memory>(text));
  index.save(path);
  const LineIndex loaded = LineIndex::load(path);
  EXPECT_EQ(lines_of(text, loaded), lines_of(text, index));
  EXPECT_EQ(loaded.source_bytes(), index.source_bytes());
  EXPECT_FALSE(loaded.keeps_blank());
  std::ifstream file(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  const auto load_bytes = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return LineIndex::load(path);
  };
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_THROW(load_bytes(damaged), Error) << i;
    EXPECT_THROW(load_bytes(whole.substr(0, i)), Error) << i;
  }
  EXPECT_THROW(load_bytes(whole + "x"), Error);
  EXPECT_EQ(load_bytes(whole).size(), 3);
}

TEST(LineIndex, RefusesWhatHasNoLines) {
  EXPECT_THROW(built(std::make_shared<Memory>(std::string("\xFF\xFE"
                                                          "a\0\n\0",
                                                          6))),
               Error);
  EXPECT_THROW(built(std::make_shared<Memory>("\x1F\x8B"
                                              "abcdefgh")),
               Error);
  EXPECT_THROW(read_all(std::make_shared<Memory>(std::string("\xFE\xFF\0a", 4)), false, 1), Error);
}

TEST(LineFiles, BatchesInAnyOrder) {
  std::mt19937 random(3);
  std::vector<std::shared_ptr<const io::ByteSource>> sources;
  std::vector<std::shared_ptr<const LineIndex>> indexes;
  Texts expected;
  for (int f = 0; f < 4; ++f) {
    std::string text;
    for (int i = 0; i < 100 * f; ++i) {
      text += std::string(random() % (i % 9 == 0 ? 9000 : 200), static_cast<char>('a' + f)) + "x\n";
      if (i % 5 == 0) text += "\n";
    }
    sources.push_back(std::make_shared<Memory>(text));
    indexes.push_back(std::make_shared<LineIndex>(built(sources.back())));
    const Texts lines = split(text, false);
    expected.insert(expected.end(), lines.begin(), lines.end());
  }
  const LineFiles files(sources, indexes, 5000);
  ASSERT_EQ(files.size(), static_cast<int64_t>(expected.size()));
  LineBatch batch;
  for (int round = 0; round < 50; ++round) {
    std::vector<int64_t> rows(random() % 200);
    if (round % 3 == 0)
      std::iota(rows.begin(), rows.end(), static_cast<int64_t>(random() % 300));
    else
      for (int64_t& row : rows) row = static_cast<int64_t>(random() % expected.size());
    files.read(rows, batch);
    ASSERT_EQ(batch.lines.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::string& line = expected[static_cast<size_t>(rows[i])];
      if (batch.lines[i].bytes > 5000) {
        EXPECT_EQ(batch.lines[i].data, nullptr);
        continue;
      }
      const std::string read(reinterpret_cast<const char*>(batch.lines[i].data), batch.lines[i].bytes);
      EXPECT_EQ(read.substr(0, read.find('\n')), line);
    }
  }
  EXPECT_THROW(files.place(files.size()), Error);
  EXPECT_THROW(files.place(-1), Error);
}

TEST(LineFiles, AFileThatShrank) {
  const ScratchFolder folder;
  const std::string path = folder.write("a.txt");
  std::ofstream(path) << "aaaa\nbbbb\ncccc\n";
  const auto source = io::open_local_file(path);
  const LineFiles files({source}, {std::make_shared<LineIndex>(built(source))}, 100);
  std::ofstream(path, std::ios::trunc) << "aaaa\n";
  LineBatch batch;
  EXPECT_NO_THROW(files.read(std::vector<int64_t>{0}, batch));
  EXPECT_THROW(files.read(std::vector<int64_t>{2}, batch), Error);
}

}  // namespace
}  // namespace millrace::sources
