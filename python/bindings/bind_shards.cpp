// ShardReader: the samples of a tar shard as dicts of bytes.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "bindings.h"
#include "io/byte_source.h"
#include "sources/shard_reader.h"

namespace millrace::python {
namespace {

std::shared_ptr<const ByteSource> source_of(const py::object& source) {
  if (py::isinstance<ByteSource>(source)) return source.cast<std::shared_ptr<ByteSource>>();
  return open_local_file(from_path(source));
}

// What a packed entry claims to have is believed piece by piece: the archive's own end is not known.
constexpr int64_t kTrustedBytes = int64_t{64} << 20;

class SampleIterator {
 public:
  SampleIterator(const py::object& source, const py::object& select, const py::object& rename, const py::object& suffixes, int64_t start)
      : select_(select), rename_(rename), start_(start) {
    if (start < 0) throw py::value_error("start should be 0 or more, but is " + std::to_string(start));
    if (!suffixes.is_none()) suffixes_ = py::set(suffixes);
    const std::shared_ptr<const ByteSource> bytes = source_of(source);
    url_ = to_path(bytes->name());
    ShardReader::NameFilter filter;
    if (!select.is_none() || !rename.is_none()) filter = [this](std::string& name) { return wanted(name); };
    const py::gil_scoped_release release;
    reader_ = std::make_unique<ShardReader>(bytes, std::move(filter));
  }

  // The next sample. After an error the reader goes on behind what was wrong, if it can.
  py::dict next() {
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

 private:
  void advance() {
    try {
      if (reader_->next_is_buffered()) {
        ended_ = !reader_->next(file_);
      } else {
        const py::gil_scoped_release release;
        ended_ = !reader_->next(file_);
      }
      has_file_ = !ended_;
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
        sample_["__key__"] = to_path(key_);
        sample_["__url__"] = url_;
      }
    }
    if (skipped_ < start_) return;
    const py::str& suffix = name_of(file_.suffix);
    if (sample_.contains(suffix))
      throw py::value_error(std::string(py::str(url_)) + ": '" + file_.entry.name + "' is there twice in sample '" + key_ +
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
    if (reader_->packed() && size > kTrustedBytes) return piece_by_piece(size);
    auto bytes = py::reinterpret_steal<py::object>(PyBytes_FromStringAndSize(nullptr, size));
    if (!bytes) throw py::error_already_set();
    const std::span<uint8_t> into(reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(bytes.ptr())), static_cast<size_t>(size));
    if (reader_->is_buffered(size)) {
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
        data.resize(before + static_cast<size_t>(std::min<int64_t>(size - static_cast<int64_t>(before), kTrustedBytes)));
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

  // Suffixes are few: one Python string each. lower() for what is not ASCII.
  const py::str& name_of(const std::string& suffix) {
    auto found = names_.find(suffix);
    if (found == names_.end()) found = names_.emplace(suffix, py::str(to_path(suffix).attr("lower")())).first;
    return found->second;
  }

  const py::object select_, rename_;
  const int64_t start_;
  std::optional<py::set> suffixes_;
  py::str url_;
  std::unique_ptr<ShardReader> reader_;
  std::unordered_map<std::string, py::str> names_;

  ShardFile file_;         // from the reader, valid when has_file_
  bool has_file_ = false;
  bool in_sample_ = false;
  bool ended_ = false;
  std::string key_;        // of the sample in work
  py::dict sample_;
  int64_t skipped_ = 0;
};

}  // namespace

void bind_shards(py::module_& m) {
  py::class_<SampleIterator>(m, "ShardReader")
      .def(py::init<const py::object&, const py::object&, const py::object&, const py::object&, int64_t>(), py::arg("source"),
           py::kw_only(), py::arg("select") = py::none(), py::arg("rename") = py::none(), py::arg("suffixes") = py::none(),
           py::arg("start") = 0)
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &SampleIterator::next);
}

}  // namespace millrace::python
