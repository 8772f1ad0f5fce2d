// SampleFiles: one file per sample, wherever it lies: in a folder, in a tar shard, in memory; or its pixels.
//
// Indices are 0 .. size() - 1; others throw Error(out_of_range). What read() throws names the file. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/sample_key.h"
#include "io/read_file.h"
#include "millrace/error.h"
#include "sources/path_table.h"

namespace millrace::sources {

// A picture of bytes in memory: the steps, in bytes, from a row to the next, a pixel, a channel.
struct Pixels {
  const uint8_t* data;
  int32_t width, height;
  ptrdiff_t row, pixel, channel;
};

class SampleFiles {
 public:
  virtual ~SampleFiles() = default;
  virtual int64_t size() const = 0;
  virtual std::string name(int64_t index) const = 0;  // for messages
  virtual void read(int64_t index, io::FileBuffer& into) const = 0;
  // The pixels of a sample that has no file; they stay as long as this object.
  virtual std::optional<Pixels> pixels(int64_t /*index*/) const { return std::nullopt; }
  // Changes the key that a sample's random numbers are drawn from, if its index is not to decide them:
  // streams number their samples anew in each run.
  virtual void identify(base::SampleKey& /*key*/) const {}
};

// An array of pictures in memory of any strides, which `keeper` keeps: (samples, height, width, channels).
class PixelFiles final : public SampleFiles {
 public:
  PixelFiles(std::shared_ptr<const void> keeper, Pixels first, int64_t count, ptrdiff_t sample)
      : keeper_(std::move(keeper)), first_(first), count_(count), sample_(sample) {}
  int64_t size() const override { return count_; }
  std::string name(int64_t index) const override { return "picture " + std::to_string(index) + " in memory"; }
  void read(int64_t index, io::FileBuffer&) const override {
    throw Error(ErrorKind::unavailable, name(index) + " has no file");
  }
  std::optional<Pixels> pixels(int64_t index) const override {
    if (index < 0 || index >= count_)
      throw Error(ErrorKind::out_of_range, "index " + std::to_string(index) + " is out of range for " +
                                               std::to_string(count_) + " pictures");
    Pixels found = first_;
    found.data += index * sample_;
    return found;
  }

 private:
  const std::shared_ptr<const void> keeper_;
  const Pixels first_;
  const int64_t count_;
  const ptrdiff_t sample_;
};

// Ordinary files.
class PathFiles final : public SampleFiles {
 public:
  explicit PathFiles(std::shared_ptr<const PathTable> paths) : paths_(std::move(paths)) {}
  int64_t size() const override { return static_cast<int64_t>(paths_->size()); }
  std::string name(int64_t index) const override { return paths_->path(static_cast<size_t>(index)); }
  void read(int64_t index, io::FileBuffer& into) const override { io::read_file(name(index), into); }

 private:
  const std::shared_ptr<const PathTable> paths_;
};

}  // namespace millrace::sources
