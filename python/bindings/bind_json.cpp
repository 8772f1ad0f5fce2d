// JsonLines: lines of indexed files as columns of batches. JsonLineReader: the lines of one file or object,
// from first to last, as samples. plain_state(): a state of JSON's types.
#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "bindings.h"
#include "json/json_reader.h"
#include "json_values.h"
#include "line_values.h"
#include "plain_states.h"
#include "shard_sources.h"
#include "sources/line_reader.h"
#include "trace/stage_clock.h"

namespace millrace::python {
namespace {

using Rows = py::array_t<int64_t, py::array::c_style>;
using Fields = std::shared_ptr<const std::vector<json::JsonField>>;

json::JsonKind kind_named(const std::string& name) {
  if (name == "number") return json::JsonKind::number;
  if (name == "list") return json::JsonKind::list;
  if (name == "text") return json::JsonKind::text;
  if (name == "object") return json::JsonKind::object;
  throw py::value_error("kind '" + name + "' is unknown");
}

// (path, kind, dtype, shape, the bytes in place of a missing value, or None) each.
Fields fields_of(const py::sequence& described) {
  auto fields = std::make_shared<std::vector<json::JsonField>>();
  for (const py::handle one : described) {
    const auto [path, kind, type, shape, instead] =
        py::cast<std::tuple<std::vector<std::string>, std::string, std::string, std::vector<int64_t>,
                            std::optional<py::bytes>>>(one);
    json::JsonField field{path, kind_named(kind), base::DType::i64, shape, std::nullopt};
    if (field.kind == json::JsonKind::number || field.kind == json::JsonKind::list) {
      const auto known = base::dtype_named(type);
      if (!known) throw py::value_error("dtype '" + type + "' is unknown");
      field.type = *known;
    }
    if (instead) {
      const std::string_view bytes = *instead;
      field.instead.emplace(bytes.begin(), bytes.end());
    }
    fields->push_back(std::move(field));
  }
  return fields;
}

class JsonLines {
 public:
  JsonLines(std::shared_ptr<sources::LineFiles> files, const py::sequence& fields, bool closed)
      : files_(std::move(files)), fields_(fields_of(fields)), closed_(closed) {
    free_.push_back(std::make_unique<Scratch>(fields_, closed_));  // errors in the fields are thrown here
  }

  // Returns a column per field (columns of kind number in the given tensors), and the rows that must be read
  // another way: the columns' values for these rows mean nothing.
  py::tuple batch(const Rows& rows, const py::sequence& tensors) {
    const auto count = static_cast<size_t>(rows.size());
    Borrowed scratch(*this);
    std::vector<json::JsonColumn>& columns = scratch->columns;
    py::list result(fields_->size());
    size_t given = 0;
    for (size_t i = 0; i < fields_->size(); ++i) {
      if ((*fields_)[i].kind != json::JsonKind::number) {
        columns[i].reset(count);
        continue;
      }
      if (given == tensors.size())
        throw py::value_error("there should be a tensor for each field of numbers");
      result[i] = tensors[given++];
      columns[i].rows = memory_of(result[i], json::json_row_bytes((*fields_)[i]) * count);
    }
    std::vector<uint8_t>& refused = scratch->refused;
    {
      const std::span<const int64_t> wanted(rows.data(), count);
      const py::gil_scoped_release release;
      const int64_t start = base::now_ns();
      {
        const trace::StageScope scope(trace::Stage::read);
        files_->read(wanted, scratch->lines);
      }
      const trace::StageScope scope(trace::Stage::decode);
      const int64_t read = base::now_ns();
      refused.assign(count, 0);
      for (size_t row = 0; row < count; ++row) {
        const sources::LineBatch::Line& line = scratch->lines.lines[row];
        refused[row] = line.data == nullptr || !scratch->reader.read(line.data, line.bytes, row, columns);
      }
      read_ns_ += read - start;
      parse_ns_ += base::now_ns() - read;
    }
    const int64_t start = base::now_ns();
    JsonValues values(*fields_);
    for (size_t i = 0; i < fields_->size(); ++i) {
      if ((*fields_)[i].kind == json::JsonKind::number) continue;
      py::list made(count);
      for (size_t row = 0; row < count; ++row) {
        py::object value = refused[row] ? py::none() : values.value(i, columns[i], row);
        if (!value) {
          refused[row] = 1;
          value = py::none();
        }
        made[row] = std::move(value);
      }
      result[i] = std::move(made);
    }
    values_ns_ += base::now_ns() - start;
    py::list left;
    for (size_t row = 0; row < count; ++row)
      if (refused[row]) left.append(py::make_tuple(row, content(scratch->lines.lines[row])));
    return py::make_tuple(std::move(result), std::move(left));
  }

  py::dict seconds() const {
    py::dict result;
    result["read"] = static_cast<double>(read_ns_) * 1e-9;
    result["decode"] = static_cast<double>(parse_ns_) * 1e-9;
    result["collate"] = static_cast<double>(values_ns_) * 1e-9;
    return result;
  }

 private:
  struct Scratch {
    Scratch(const Fields& fields, bool closed) : reader(fields, closed), columns(fields->size()) {}
    json::JsonReader reader;
    sources::LineBatch lines;
    std::vector<json::JsonColumn> columns;
    std::vector<uint8_t> refused;
  };

  // A scratch for the time of one batch; several threads make batches at once.
  class Borrowed {
   public:
    explicit Borrowed(JsonLines& lines) : lines_(lines) {
      const std::lock_guard lock(lines.mutex_);
      if (!lines.free_.empty()) {
        scratch_ = std::move(lines.free_.back());
        lines.free_.pop_back();
      }
      if (!scratch_) scratch_ = std::make_unique<Scratch>(lines.fields_, lines.closed_);
    }
    ~Borrowed() {
      const std::lock_guard lock(lines_.mutex_);
      lines_.free_.push_back(std::move(scratch_));
    }
    Scratch* operator->() { return scratch_.get(); }

   private:
    JsonLines& lines_;
    std::unique_ptr<Scratch> scratch_;
  };

  static uint8_t* memory_of(const py::object& tensor, size_t bytes) {
    if (tensor.attr("nbytes").cast<size_t>() != bytes || !tensor.attr("is_contiguous")().cast<bool>())
      throw py::value_error("a tensor for a field of numbers should be dense, with a row for each line");
    return reinterpret_cast<uint8_t*>(tensor.attr("data_ptr")().cast<uintptr_t>());
  }

  static py::object content(const sources::LineBatch::Line& line) {
    const std::string_view text = without_newline(line);
    return text.data() == nullptr ? py::object(py::none()) : py::object(py::bytes(text.data(), text.size()));
  }

  const std::shared_ptr<sources::LineFiles> files_;
  const Fields fields_;
  const bool closed_;
  std::mutex mutex_;  // guards free_; never held while the GIL is asked for
  std::vector<std::unique_ptr<Scratch>> free_;
  std::atomic<int64_t> read_ns_{0}, parse_ns_{0}, values_ns_{0};  // spent so far, for statistics
};

// Lines are parsed in blocks, ahead of their turn; errors come in turn.
class JsonLineReader {
 public:
  JsonLineReader(const py::object& source, const py::sequence& fields, py::object names,
                 py::object read_again, int64_t start, int64_t stride, int64_t offset, int64_t max_line_bytes,
                 bool closed)
      : fields_(fields_of(fields)), reader_(fields_, closed), values_(*fields_), columns_(fields_->size()),
        read_again_(std::move(read_again)), start_(start), stride_(stride), offset_(offset) {
    if (!names.is_none())
      for (const py::handle name : names) names_.push_back(py::reinterpret_borrow<py::object>(name));
    if (start < 0 || stride < 1) throw py::value_error("start should be 0 or more, and stride 1 or more");
    const auto opened = source_of(source);
    const py::gil_scoped_release release;
    lines_.emplace(opened, false, max_line_bytes);
    rows_.resize(fields_->size());
    for (size_t i = 0; i < fields_->size(); ++i)
      if ((*fields_)[i].kind == json::JsonKind::number)
        rows_[i].resize(json::json_row_bytes((*fields_)[i]) * kBlock);
  }

  // Returns the next line's sample; None if the line belongs to another reader.
  py::object next() {
    if (busy_)
      throw py::value_error("this JsonLineReader is being read by another thread; give each its own");
    const Busy busy(busy_);
    while (at_ == block_.size())
      if (!fill()) throw py::stop_iteration();
    const size_t row = at_++;
    const int64_t number = passed_++;
    if (!is_mine(number)) return py::none();
    py::object sample = refused_[row] ? py::object() : sample_of(row);
    return sample ? sample : again(block_[row]);
  }

  int64_t passed() const { return passed_; }

 private:
  static constexpr size_t kBlock = 128;
  struct Busy {  // guarded by the GIL, which is released in between
    explicit Busy(bool& busy) : flag(busy) { flag = true; }
    ~Busy() { flag = false; }
    bool& flag;
  };

  bool is_mine(int64_t number) const { return stride_ == 1 || number % stride_ == offset_; }

  bool fill() {
    at_ = 0;
    block_.clear();
    if (ended_) return false;
    const py::gil_scoped_release release;
    ended_ = true;  // an error thrown below ends the file: the next line's beginning is unknown then
    while (passed_ < start_) {
      const auto most = static_cast<size_t>(std::min<int64_t>(start_ - passed_, 4096));
      if (!lines_->next(block_, most)) return false;
      passed_ += static_cast<int64_t>(block_.size());
      block_.clear();
    }
    if (!lines_->next(block_, kBlock)) return false;
    ended_ = false;
    refused_.assign(block_.size(), 0);
    for (size_t i = 0; i < columns_.size(); ++i) {
      columns_[i].rows = rows_[i].data();
      columns_[i].reset(block_.size());
    }
    for (size_t row = 0; row < block_.size(); ++row)
      if (is_mine(passed_ + static_cast<int64_t>(row)))
        refused_[row] =
            block_[row].data == nullptr || !reader_.read(block_[row].data, block_[row].bytes, row, columns_);
    return true;
  }

  // Returns a null object if the line must be read another way.
  py::object sample_of(size_t row) {
    py::dict sample;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const bool is_number = (*fields_)[i].kind == json::JsonKind::number;
      py::object value = is_number
                             ? values_.number(i, rows_[i].data() + row * json::json_row_bytes((*fields_)[i]))
                             : values_.value(i, columns_[i], row);
      if (!value || names_.empty()) return value;
      if (PyDict_SetItem(sample.ptr(), names_[i].ptr(), value.ptr()) != 0) throw py::error_already_set();
    }
    return sample;
  }

  py::object again(const sources::LineReader::Line& line) {
    const std::string_view text = without_newline({line.data, line.bytes});
    const py::object content =
        line.data == nullptr ? py::object(py::none()) : py::object(py::bytes(text.data(), text.size()));
    return read_again_(content, line.number, line.offset);
  }

  const Fields fields_;
  json::JsonReader reader_;
  JsonValues values_;
  std::vector<json::JsonColumn> columns_;
  std::vector<std::vector<uint8_t>> rows_;  // of the number fields
  std::vector<py::object> names_;           // none: samples are the first field's values
  const py::object read_again_;
  const int64_t start_, stride_, offset_;
  std::optional<sources::LineReader> lines_;
  std::vector<sources::LineReader::Line> block_;
  std::vector<uint8_t> refused_;
  size_t at_ = 0;       // in the block
  int64_t passed_ = 0;  // lines passed so far, those of other readers too
  bool ended_ = false;
  bool busy_ = false;
};

}  // namespace

void bind_json(py::module_& m) {
  py::class_<JsonLines>(m, "JsonLines")
      .def(py::init<std::shared_ptr<sources::LineFiles>, const py::sequence&, bool>(), py::arg("files"),
           py::arg("fields"), py::arg("closed") = false)
      .def("batch", &JsonLines::batch, py::arg("lines"), py::arg("tensors"))
      .def("seconds", &JsonLines::seconds);

  py::class_<JsonLineReader>(m, "JsonLineReader")
      .def(py::init<const py::object&, const py::sequence&, py::object, py::object, int64_t, int64_t, int64_t,
                    int64_t, bool>(),
           py::arg("source"), py::arg("fields"), py::arg("names"), py::arg("read_again"), py::kw_only(),
           py::arg("start") = 0, py::arg("stride") = 1, py::arg("offset") = 0,
           py::arg("max_line_bytes") = std::numeric_limits<int64_t>::max(), py::arg("closed") = false)
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &JsonLineReader::next)
      .def_property_readonly("passed", &JsonLineReader::passed);

  m.def(
      "plain_state",
      [](const py::object& state, const py::object& names) -> py::object {
        auto found = plain_state(state.ptr(), names.is_none() ? nullptr : names.ptr());
        if (!found) return py::none();
        return py::make_tuple(std::move(found->copy), std::move(found->sum));
      },
      py::arg("state"), py::arg("names") = py::none());
}

}  // namespace millrace::python
