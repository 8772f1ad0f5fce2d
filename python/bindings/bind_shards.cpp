// ShardReader: the samples of a tar shard as dicts of bytes.
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <exception>
#include <limits>
#include <optional>
#include <unordered_map>

#include "bindings.h"
#include "core/cpu_budget.h"
#include "io/byte_source.h"
#include "io/read_ahead.h"
#include "millrace/error.h"
#include "shard_sources.h"
#include "sources/shard_reader.h"

namespace millrace::python {
namespace {

// A packed entry's claimed size is trusted up to this. Larger entries are read piece by piece, because the
// archive's own end is not known.
constexpr int64_t kTrustedBytes = int64_t{64} << 20;

// The thread that readers share, one reader at a time. It starts with the first reader that can use it.
class SharedReadAhead {
 public:
  ~SharedReadAhead() {
    if (in_child()) {
      static_cast<void>(reads_.release());
      return;
    }
    const py::gil_scoped_release release;
    reads_.reset();
  }
  bool in_child() const { return reads_ && reads_->in_child(); }
  io::ReadAhead& reads() {
    if (!reads_) {
      keep_freed_memory();
      reads_ = std::make_unique<io::ReadAhead>();
    }
    return *reads_;
  }

 private:
  // glibc returns free memory at the heap's end to the system beyond 128 kB, and the pages that come instead
  // cost as much as a file's copy into them; but it learns: once a larger block was freed, twice as much
  // stays. Other allocators take no notice.
  static void keep_freed_memory() {
    void* volatile block = std::malloc(kKeptBytes / 2);
    std::free(block);
  }
  static constexpr size_t kKeptBytes = 16 << 20;

  std::unique_ptr<io::ReadAhead> reads_;
};

class SampleIterator {
 public:
  SampleIterator(const py::object& source, const py::object& select, const py::object& rename,
                 const py::object& suffixes, int64_t start, std::optional<int64_t> locate_from,
                 std::shared_ptr<SharedReadAhead> read_ahead)
      : select_(select), rename_(rename), start_(start), source_(source_of(source)),
        read_ahead_(read_ahead ? std::move(read_ahead) : std::make_shared<SharedReadAhead>()) {
    if (start < 0) throw py::value_error("start should be 0 or more, but is " + std::to_string(start));
    if (!suffixes.is_none()) suffixes_ = py::set(suffixes);
    url_ = to_path(source_->name());
    sources::ShardReader::NameFilter filter;
    if (!select.is_none() || !rename.is_none()) filter = [this](std::string& name) { return wanted(name); };
    const py::gil_scoped_release release;
    reader_ = std::make_unique<sources::ShardReader>(source_, std::move(filter));
    if (locate_from && !reader_->packed()) locate_from_ = std::max<int64_t>(*locate_from, 0);
    // Other sources have threads of their own. The user's functions are not called ahead of their turn.
    reads_ahead_ = !read_ahead_->in_child() && !reader_->packed() && source_->is_here() && !locate_from &&
                   select.is_none() && rename.is_none() && core::cpu_budget().threads > 1;
  }

  ~SampleIterator() { drop_reads(); }

  // Returns the next sample. After an error the reader goes on past the damage, if it can.
  py::dict next() {
    if (busy_)
      throw py::value_error(
          "this ShardReader is being read by another thread, or by its own select or rename; give each its "
          "own");
    if (reads_ && read_ahead_->in_child())
      throw Error(ErrorKind::unavailable,
                  source_->name() +
                      ": this ShardReader was made before fork(), and its thread does not exist in "
                      "the child process; make a new one there");
    const Busy busy(busy_);
    while (upcoming_.empty() || (reads_ahead_ && upcoming_.size() < kMostAhead &&
                                 bytes_ahead_ < kBytesAhead && !upcoming_.back().last))
      upcoming_.push_back(parse());
    const Upcoming first = std::move(upcoming_.front());
    upcoming_.pop_front();
    bytes_ahead_ -= first.bytes;
    // Also after an error: the next call may hand out the sample's parts read so far.
    if (first.job > 0) finish(first.job);
    if (first.error) std::rethrow_exception(first.error);
    return first.sample;
  }

 private:
  // A sample with content that may still be on its way, or the error in its place.
  struct Upcoming {
    py::dict sample;
    int64_t job = 0;  // the last job that writes to the sample; 0: none
    int64_t bytes = 0;
    std::exception_ptr error;
    bool last = false;  // an error, or the end: parsing goes on only after it was handed out
  };
  static constexpr size_t kMostAhead = 64;
  static constexpr int64_t kBytesAhead = 4 << 20;
  static constexpr int64_t kOwnJob = 32 << 10;  // smaller files are read with their headers

  Upcoming parse() {
    Upcoming result;
    job_ = job_bytes_ = 0;
    try {
      result.sample = next_sample();
    } catch (...) {
      result.error = std::current_exception();
      result.last = true;
    }
    result.job = job_;
    result.bytes = job_bytes_;
    bytes_ahead_ += job_bytes_;
    return result;
  }

  void finish(int64_t job) {
    try {
      const py::gil_scoped_release release;
      reads_->finish(job);
    } catch (...) {
      ended_ = true;
      in_sample_ = false;
      drop_reads();
      upcoming_.clear();
      throw;
    }
  }

  // Before the memory goes that is read into.
  void drop_reads() {
    if (!reads_ || read_ahead_->in_child()) return;
    const py::gil_scoped_release release;
    reads_->drop(*source_);
  }

  py::dict next_sample() {
    for (;;) {
      if (!has_file_ && !ended_) advance();
      if (ended_ || (in_sample_ && file_.key != key_)) {
        if (!in_sample_) throw py::stop_iteration();
        in_sample_ = false;
        if (skipped_ < start_) {
          ++skipped_;
          continue;
        }
        return std::exchange(sample_, py::dict());
      }
      take();
    }
  }

  // Guarded by the GIL, which is released in between.
  struct Busy {
    explicit Busy(bool& busy) : flag(busy) { flag = true; }
    ~Busy() { flag = false; }
    bool& flag;
  };

  void advance() {
    try {
      if (reader_->next_is_buffered()) {
        ended_ = !reader_->next(file_);
      } else {
        const py::gil_scoped_release release;
        ended_ = !reader_->next(file_);
      }
      has_file_ = !ended_;
    } catch (py::error_already_set&) {
      throw;  // of select or rename: only the file they were asked about is lost
    } catch (...) {
      // Which of its files the shard lost is not known, so the sample in work is not handed out.
      ended_ = true;
      in_sample_ = false;
      throw;
    }
  }

  // The file at hand becomes a part of the sample it belongs to.
  void take() {
    has_file_ = false;
    if (!in_sample_) {
      in_sample_ = true;
      key_ = file_.key;
      if (skipped_ == start_) {
        sample_ = py::dict();
        sample_[key_name_] = to_path(key_);
        sample_[url_name_] = url_;
      }
    }
    if (skipped_ < start_) return;
    const py::str& suffix = name_of(file_.suffix);
    if (sample_.contains(suffix))
      throw Error(ErrorKind::invalid_argument,
                  source_->name() + ": '" + file_.entry.name + "' is there twice in sample '" + key_ +
                      "', the second time at byte " + std::to_string(file_.entry.header) +
                      "; the first one is kept when this error is ignored");
    if (suffixes_ && !suffixes_->contains(suffix)) return;
    try {
      sample_[suffix] = content();
    } catch (...) {
      ended_ = true;
      in_sample_ = false;
      throw;
    }
  }

  py::object content() {
    const int64_t size = file_.entry.size;
    if (size >= locate_from_) return py::cast(LocatedFile{source_, file_.entry.offset, size});
    if (reader_->packed() && size > kTrustedBytes) return piece_by_piece(size);
    auto bytes = py::reinterpret_steal<py::object>(PyBytes_FromStringAndSize(nullptr, size));
    if (!bytes) throw py::error_already_set();
    const std::span<uint8_t> into(reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(bytes.ptr())),
                                  static_cast<size_t>(size));
    if (reads_ahead_ && size >= kOwnJob) {
      if (!reads_) reads_ = &read_ahead_->reads();
      job_ = reads_->add(*source_, file_.entry.offset, into);
      job_bytes_ += size;
    } else if (reader_->is_buffered(size)) {
      reader_->read(into);
    } else {
      const py::gil_scoped_release release;
      reader_->read(into);
    }
    return bytes;
  }

  py::object piece_by_piece(int64_t size) {
    std::string data;
    {
      const py::gil_scoped_release release;
      while (static_cast<int64_t>(data.size()) < size) {
        const size_t before = data.size();
        data.resize(before + static_cast<size_t>(
                                 std::min<int64_t>(size - static_cast<int64_t>(before), kTrustedBytes)));
        reader_->read({reinterpret_cast<uint8_t*>(data.data()) + before, data.size() - before});
      }
    }
    return py::bytes(data);
  }

  bool wanted(std::string& name) {
    const py::gil_scoped_acquire gil;
    if (!rename_.is_none()) name = from_path(rename_(to_path(name)));
    return select_.is_none() || py::cast<bool>(py::bool_(select_(to_path(name))));
  }

  // Suffixes are few: one Python string each.
  const py::str& name_of(const std::string& suffix) {
    auto found = names_.find(suffix);
    if (found == names_.end()) found = names_.emplace(suffix, to_suffix(suffix)).first;
    return found->second;
  }

  const py::str key_name_{"__key__"}, url_name_{"__url__"};  // made once
  const py::object select_, rename_;
  const int64_t start_;
  const std::shared_ptr<const io::ByteSource> source_;
  int64_t locate_from_ = std::numeric_limits<int64_t>::max();
  std::optional<py::set> suffixes_;
  py::str url_;
  std::unique_ptr<sources::ShardReader> reader_;
  std::unordered_map<std::string, py::str> names_;

  bool reads_ahead_ = false;
  std::deque<Upcoming> upcoming_;
  int64_t bytes_ahead_ = 0;
  int64_t job_ = 0, job_bytes_ = 0;  // of the sample in work
  const std::shared_ptr<SharedReadAhead> read_ahead_;
  io::ReadAhead* reads_ = nullptr;  // its thread, once this reader has a job for it

  sources::ShardFile file_;  // from the reader, valid when has_file_
  bool has_file_ = false;
  bool in_sample_ = false;
  bool ended_ = false;
  bool busy_ = false;
  std::string key_;  // of the sample in work
  py::dict sample_;
  int64_t skipped_ = 0;
};

}  // namespace

void bind_shards(py::module_& m) {
  py::class_<SharedReadAhead, std::shared_ptr<SharedReadAhead>>(m, "ReadAhead").def(py::init<>());

  py::class_<SampleIterator>(m, "ShardReader")
      .def(py::init<const py::object&, const py::object&, const py::object&, const py::object&, int64_t,
                    std::optional<int64_t>, std::shared_ptr<SharedReadAhead>>(),
           py::arg("source"), py::kw_only(), py::arg("select") = py::none(), py::arg("rename") = py::none(),
           py::arg("suffixes") = py::none(), py::arg("start") = 0, py::arg("locate_from") = py::none(),
           py::arg("read_ahead") = nullptr)
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &SampleIterator::next);

  py::class_<LocatedFile>(m, "LocatedFile")
      .def_readonly("size", &LocatedFile::size)
      .def("read", &LocatedFile::read);
}

}  // namespace millrace::python
