// Fuzz target for files of JSON lines: the index and the streaming reader find the same lines, and every line
// is read or refused.
//
// Lines are in buffers of exactly their size and padding. Whatever fields are asked for, a line that one
// reader takes as a whole is JSON: the others refuse it only for its fields. Anything but Error(corrupt_data)
// or Error(unavailable) is a bug: the process aborts.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "json/json_reader.h"
#include "millrace/error.h"
#include "sources/line_files.h"
#include "sources/line_index.h"
#include "sources/line_reader.h"

namespace {

using namespace millrace;

std::vector<std::vector<json::JsonField>> schemas() {
  const std::vector<uint8_t> zero(8), no{'n', 'o'};
  return {{{{}, json::JsonKind::object, {}, {}, {}}},
          {{{"a"}, json::JsonKind::number, base::DType::i64, {}, zero},
           {{"t"}, json::JsonKind::text, {}, {}, no},
           {{"v"}, json::JsonKind::list, base::DType::f32, {2}, no}},
          {{{"a"}, json::JsonKind::number, base::DType::f32, {2, 2}, {}},
           {{"t", "u"}, json::JsonKind::object, {}, {}, {}},
           {{"t"}, json::JsonKind::list, base::DType::b8, {}, {}}}};
}

// One reader per schema, kept from line to line as a loader's are.
class Readers {
 public:
  Readers() {
    for (auto& fields : schemas()) {
      shared_.push_back(std::make_shared<const std::vector<json::JsonField>>(std::move(fields)));
      readers_.emplace_back(shared_.back());
    }
  }

  void try_line(const uint8_t* data, size_t bytes) {
    const std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes + json::JsonReader::kPadding]);
    std::copy_n(data, bytes, exact.get());
    std::fill_n(exact.get() + bytes, json::JsonReader::kPadding, uint8_t{'"'});
    bool whole = false;
    for (size_t i = 0; i < readers_.size(); ++i) {
      std::vector<json::JsonColumn> columns(shared_[i]->size());
      std::vector<std::vector<uint8_t>> rows(columns.size());
      for (size_t c = 0; c < columns.size(); ++c) {
        columns[c].reset(1);
        if ((*shared_[i])[c].kind == json::JsonKind::number)
          rows[c].resize(json::json_row_bytes((*shared_[i])[c]));
        columns[c].rows = rows[c].data();
      }
      const bool taken = readers_[i].read(exact.get(), bytes, 0, columns);
      if (i == 0) whole = taken;
      check(!taken || whole, "fields of what is no JSON");
      for (const json::JsonColumn& column : columns)
        check(column.values[0].begin + column.values[0].bytes <= column.bytes.size() || !taken,
              "a value outside its column");
    }
  }

 private:
  std::vector<std::shared_ptr<const std::vector<json::JsonField>>> shared_;
  std::vector<json::JsonReader> readers_;
};

void try_file(std::span<const uint8_t> bytes, bool keep_blank) {
  const auto source = std::make_shared<FuzzInput>(bytes);
  std::vector<sources::LineIndex::Range> ranges;
  try {
    sources::LineIndexBuilder builder(source, keep_blank);
    while (builder.step(7)) {
    }
    const sources::LineIndex index = builder.finish();
    for (int64_t i = 0; i < index.size(); ++i) ranges.push_back(index.range(i));
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::corrupt_data || error.kind() == ErrorKind::unavailable, error.what());
    return;  // packed, or UTF-16
  }
  Readers readers;
  sources::LineReader reader(source, keep_blank, 1 << 20);
  std::vector<sources::LineReader::Line> lines;
  size_t number = 0;
  while (reader.next(lines, 3))
    for (const auto& line : lines) {
      check(number < ranges.size(), "more lines in the stream");
      check(ranges[number].begin == line.offset &&
                ranges[number].end >= line.offset + static_cast<int64_t>(line.bytes),
            "a line's place");
      readers.try_line(line.data, line.bytes);
      ++number;
    }
  check(number == ranges.size(), "more lines in the index");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try_file({data, size}, false);
  try_file({data, size}, true);
  return 0;
}
