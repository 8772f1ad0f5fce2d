// TarIndex, and the samples that the engine reads by it; samples of streams.
#include <algorithm>

#include "bindings.h"
#include "shard_sources.h"
#include "sources/stream_samples.h"
#include "sources/tar_index.h"
#include "sources/tar_samples.h"

namespace millrace::python {
namespace {

// The content of a bytes object, which it keeps alive.
class BytesSource final : public io::ByteSource {
 public:
  BytesSource(py::bytes content, std::string name) : content_(std::move(content)), name_(std::move(name)) {
    data_ = {reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(content_.ptr())),
             static_cast<size_t>(PyBytes_GET_SIZE(content_.ptr()))};
  }
  ~BytesSource() override {
    if (!Py_IsInitialized()) {
      content_.release();  // the interpreter took its objects with it
      return;
    }
    const py::gil_scoped_acquire gil;
    content_ = py::object();
  }

  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(data_.size()); }
  void read_at(int64_t offset, std::span<uint8_t> into) const override {
    std::copy_n(data_.begin() + offset, into.size(), into.begin());
  }

 private:
  py::object content_;
  const std::string name_;
  std::span<const uint8_t> data_;
};

py::dict files_of(const sources::TarIndex& index, int64_t sample) {
  py::dict result;
  for (const sources::TarIndex::File& file : index.files(sample))
    result[to_suffix(index.suffixes()[file.suffix])] = py::make_tuple(file.offset, file.size);
  return result;
}

// Parts of file names, which are any bytes in a tar.
std::vector<std::string> suffixes_of(const std::vector<py::str>& given) {
  std::vector<std::string> suffixes;
  for (const py::str& suffix : given) suffixes.push_back(to_text(suffix));
  return suffixes;
}

py::object numbers_of(const sources::TarIndex& index, const std::vector<py::str>& given) {
  const std::vector<std::string> suffixes = suffixes_of(given);
  py::array_t<int64_t> result(static_cast<py::ssize_t>(index.size()));
  int64_t* numbers = result.mutable_data();
  for (int64_t sample = 0; sample < index.size(); ++sample) {
    const sources::TarIndex::File* file = index.find(sample, suffixes);
    if (file == nullptr || file->number == sources::TarIndex::kNoNumber) return py::none();
    numbers[sample] = file->number;
  }
  return result;
}

int64_t add_sample(sources::StreamSamples& samples, const py::object& content, const py::object& url,
                   const py::object& key, int64_t number, uint32_t pass) {
  sources::StreamSamples::Sample sample;
  sample.key = from_path(key);
  sample.number = number;
  sample.pass = pass;
  if (py::isinstance<LocatedFile>(content)) {
    const auto& located = content.cast<const LocatedFile&>();
    sample.source = located.source;
    sample.offset = located.offset;
    sample.size = located.size;
    sample.source->will_read(sample.offset, sample.size);
  } else {
    const auto bytes = content.cast<py::bytes>();
    sample.size = PyBytes_GET_SIZE(bytes.ptr());
    sample.source = std::make_shared<BytesSource>(bytes, from_path(url));
  }
  return samples.add(std::move(sample));
}

}  // namespace

void bind_shard_samples(py::module_& m) {
  py::class_<sources::TarIndex, std::shared_ptr<sources::TarIndex>>(m, "TarIndex")
      .def_static(
          "build",
          [](const py::object& source) {
            const auto shard = source_of(source);
            const py::gil_scoped_release release;
            return std::make_shared<sources::TarIndex>(sources::TarIndex::build(shard));
          },
          py::arg("source"))
      .def_static(
          "load",
          [](const py::object& path) {
            const std::string file = from_path(path);
            const py::gil_scoped_release release;
            return std::make_shared<sources::TarIndex>(sources::TarIndex::load(file));
          },
          py::arg("path"))
      .def(
          "save",
          [](const sources::TarIndex& index, const py::object& path, uint64_t mark) {
            const std::string file = from_path(path);
            const py::gil_scoped_release release;
            index.save(file, mark);
          },
          py::arg("path"), py::arg("mark") = 0)
      .def_property_readonly("mark", &sources::TarIndex::mark)
      .def("__len__", &sources::TarIndex::size)
      .def_property_readonly("shard_bytes", &sources::TarIndex::shard_bytes)
      .def_property_readonly("suffixes",
                             [](const sources::TarIndex& index) {
                               py::list result;
                               for (const std::string& suffix : index.suffixes())
                                 result.append(to_suffix(suffix));
                               return result;
                             })
      .def(
          "key", [](const sources::TarIndex& index, int64_t sample) { return to_path(index.key(sample)); },
          py::arg("sample"))
      .def("files", &files_of, py::arg("sample"))
      .def("numbers", &numbers_of, py::arg("suffixes"));

  py::class_<sources::TarSamples, sources::SampleFiles, std::shared_ptr<sources::TarSamples>>(m, "TarSamples")
      .def(py::init([](const std::vector<std::shared_ptr<io::ByteSource>>& sources,
                       const std::vector<std::shared_ptr<sources::TarIndex>>& indexes,
                       const std::vector<py::str>& given) {
             if (sources.size() != indexes.size())
               throw py::value_error("there should be as many indexes as sources");
             std::vector<sources::TarSamples::Shard> shards;
             for (size_t i = 0; i < sources.size(); ++i) shards.push_back({sources[i], indexes[i]});
             std::vector<std::string> suffixes = suffixes_of(given);
             const py::gil_scoped_release release;  // it looks at every sample
             return std::make_shared<sources::TarSamples>(std::move(shards), std::move(suffixes));
           }),
           py::arg("sources"), py::arg("indexes"), py::arg("suffixes"));

  py::class_<sources::StreamSamples, sources::SampleFiles, std::shared_ptr<sources::StreamSamples>>(
      m, "StreamSamples")
      .def(py::init<>())
      .def("add", &add_sample, py::arg("content"), py::arg("url"), py::arg("key"), py::arg("number"),
           py::arg("number_of_pass"))
      .def(
          "add_file",
          [](sources::StreamSamples& samples, const py::object& path, int64_t number, uint32_t pass) {
            return samples.add({nullptr, 0, 0, from_path(path), number, pass, nullptr});
          },
          py::arg("path"), py::arg("number"), py::arg("number_of_pass"))
      .def(
          "add_of",
          [](sources::StreamSamples& samples, std::shared_ptr<sources::SampleFiles> files, int64_t index,
             int64_t number,
             uint32_t pass) { return samples.add({nullptr, index, 0, "", number, pass, std::move(files)}); },
          py::arg("files"), py::arg("index"), py::arg("number"), py::arg("number_of_pass"))
      .def("drop_before", &sources::StreamSamples::drop_before, py::arg("ticket"))
      .def_property_readonly("held", &sources::StreamSamples::held);
}

}  // namespace millrace::python
