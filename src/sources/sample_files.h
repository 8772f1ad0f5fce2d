// SampleFiles: one file per sample, wherever it lies: in a folder, in a tar shard, in memory.
//
// Indices are 0 .. size() - 1; others throw Error(out_of_range). What read() throws names the file. Any
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/sample_key.h"
#include "io/read_file.h"
#include "sources/path_table.h"

namespace millrace::sources {

class SampleFiles {
 public:
  virtual ~SampleFiles() = default;
  virtual int64_t size() const = 0;
  virtual std::string name(int64_t index) const = 0;  // for messages
  virtual void read(int64_t index, io::FileBuffer& into) const = 0;
  // Of what is random about a sample, where that is not its index: streams number their samples anew in each
  // run.
  virtual void identify(base::SampleKey& /*key*/) const {}
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
