// Documents of tokens in packs, and ragged rows padded.
#include <algorithm>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "millrace/error.h"
#include "sequences/pack_builder.h"
#include "sequences/pad_rows.h"
#include "sequences/sequence_packing.h"
#include "tensors/tensor.h"

namespace millrace::python {
namespace {

using Numbers = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;

std::span<const int64_t> view(const Numbers& array) {
  return {array.data(), static_cast<size_t>(array.size())};
}

template <class Choice>
Choice chosen(const char* what, const std::string& name,
              std::initializer_list<std::pair<const char*, Choice>> choices) {
  std::string known;
  for (const auto& [each, value] : choices) {
    if (name == each) return value;
    known += (known.empty() ? "'" : ", '") + std::string(each) + "'";
  }
  throw py::value_error(std::string(what) + "='" + name + "' is unknown; use one of " + known);
}

sequences::SequencePacking make_packing(const Numbers& lengths, int64_t length, const std::string& strategy,
                                        int64_t window, int64_t most_pieces, const std::string& too_long,
                                        std::optional<uint64_t> seed) {
  sequences::PackingOptions options;
  options.length = length;
  options.strategy = chosen<sequences::PackStrategy>("strategy", strategy,
                                                     {{"best_fit", sequences::PackStrategy::best_fit},
                                                      {"first_fit", sequences::PackStrategy::first_fit},
                                                      {"concat", sequences::PackStrategy::concatenate}});
  options.window = window;
  options.most_pieces = most_pieces;
  options.too_long = chosen<sequences::TooLong>("too_long", too_long,
                                                {{"split", sequences::TooLong::split},
                                                 {"cut", sequences::TooLong::cut},
                                                 {"skip", sequences::TooLong::skip}});
  options.seed = seed;
  py::gil_scoped_release release;
  return sequences::SequencePacking(view(lengths), options);
}

py::dict report_of(const sequences::SequencePacking& packing) {
  const sequences::PackingReport& report = packing.report();
  py::dict result;
  result["documents"] = report.documents;
  result["empty"] = report.empty;
  result["skipped"] = report.skipped;
  result["cut"] = report.cut;
  result["cut_tokens"] = report.cut_tokens;
  result["split"] = report.split;
  result["tokens"] = report.tokens;
  result["pieces"] = report.pieces;
  result["packs"] = report.packs;
  return result;
}

py::array_t<int64_t> pieces_of(const sequences::PackOrder& order, const Numbers& packs) {
  std::vector<sequences::PackPiece> pieces;
  std::vector<int64_t> ends;
  {
    py::gil_scoped_release release;
    order.at(view(packs), pieces, ends);
  }
  py::array_t<int64_t> result({static_cast<py::ssize_t>(pieces.size()), py::ssize_t{4}});
  int64_t* out = result.mutable_data();
  size_t row = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    while (static_cast<int64_t>(i) >= ends[row]) ++row;
    for (const int64_t number : {packs.data()[row], pieces[i].document, pieces[i].begin, pieces[i].tokens})
      *out++ = number;
  }
  return result;
}

// A builder, and the arrays that it reads.
class Builder {
 public:
  Builder(const py::sequence& arrays, int64_t length, std::optional<int64_t> separator,
          const std::string& targets, bool across_documents, int64_t pad, int64_t ignore,
          int64_t vocabulary) {
    sequences::PackLayout layout;
    layout.length = length;
    layout.separator = separator;
    layout.targets = chosen<sequences::PackTargets>(
        "targets", targets,
        {{"shift", sequences::PackTargets::next}, {"same", sequences::PackTargets::same}});
    layout.across_documents = across_documents;
    layout.pad = pad;
    layout.ignore = ignore;
    layout.vocabulary = vocabulary;
    std::vector<sequences::TokenArray> native;
    for (const py::handle each : arrays) {
      auto [tokens, offsets, called] = py::cast<std::tuple<py::array, Numbers, py::str>>(each);
      const std::string name = to_text(called);
      const auto type = base::dtype_of(tokens.dtype().kind(), static_cast<size_t>(tokens.itemsize()));
      if (!type || tokens.ndim() != 1 || (tokens.size() > 1 && tokens.strides(0) != tokens.itemsize()))
        throw Error(ErrorKind::invalid_argument,
                    name + ": tokens should be integers in one dimension, behind one another");
      if (tokens.dtype().byteorder() == '>')
        throw Error(ErrorKind::invalid_argument,
                    name + ": tokens should have this machine's byte order; convert them");
      native.push_back(
          {static_cast<const uint8_t*>(tokens.data()), *type, tokens.size(), view(offsets), name});
      owners_.emplace_back(std::move(tokens), std::move(offsets));
    }
    builder_.emplace(std::move(native), layout);
  }

  // Returns where segments begin in the concatenated rows (padding is a segment), and the longest one's
  // tokens.
  std::pair<py::array_t<int32_t>, int64_t> build(const sequences::PackOrder& order, const Numbers& packs,
                                                 const py::object& ids, const py::object& labels,
                                                 const py::object& positions,
                                                 const py::object& documents) const {
    const size_t rows = static_cast<size_t>(packs.size());
    const auto length = builder_->layout().length;
    if (static_cast<int64_t>(rows) > std::numeric_limits<int32_t>::max() / length)
      throw py::value_error(
          "a batch has at most 2^31 - 1 tokens, which is what cu_seqlens can count; use fewer packs");
    const auto memory = [&](const py::object& tensor, int64_t item) -> uint8_t* {
      if (tensor.is_none()) return nullptr;
      const collate::RowTable table = tensors::tensor_rows(tensor.ptr());
      if (table.rows != static_cast<int64_t>(rows) || table.stride_bytes != length * item)
        throw py::value_error("an output should be a dense tensor of a row per pack, of the packs' length");
      return const_cast<uint8_t*>(table.base);
    };
    auto* const id_rows = reinterpret_cast<int64_t*>(memory(ids, 8));
    auto* const label_rows = reinterpret_cast<int64_t*>(memory(labels, 8));
    auto* const position_rows = reinterpret_cast<int64_t*>(memory(positions, 8));
    auto* const document_rows = reinterpret_cast<int32_t*>(memory(documents, 4));
    std::vector<int32_t> begins{0};
    {
      py::gil_scoped_release release;
      std::vector<sequences::PackPiece> pieces;
      std::vector<int64_t> ends;
      order.at(view(packs), pieces, ends);
      size_t first = 0;
      for (size_t i = 0; i < rows; ++i) {
        const int64_t at = static_cast<int64_t>(i) * length;
        const std::span row(pieces.data() + first, static_cast<size_t>(ends[i]) - first);
        builder_->build(row, {id_rows + at, label_rows ? label_rows + at : nullptr,
                              position_rows ? position_rows + at : nullptr,
                              document_rows ? document_rows + at : nullptr});
        int64_t end = at;
        for (const sequences::PackPiece& piece : row)
          begins.push_back(static_cast<int32_t>(end += piece.tokens));
        if (end < at + length) begins.push_back(static_cast<int32_t>(at + length));
        first = static_cast<size_t>(ends[i]);
      }
    }
    int64_t longest = 0;
    for (size_t i = 1; i < begins.size(); ++i)
      longest = std::max<int64_t>(longest, begins[i] - begins[i - 1]);
    return {py::array_t<int32_t>(static_cast<py::ssize_t>(begins.size()), begins.data()), longest};
  }

  int64_t documents() const { return builder_->documents(); }

 private:
  std::vector<std::pair<py::array, Numbers>> owners_;
  std::optional<sequences::PackBuilder> builder_;
};

// Rows as memory: lists of ints become numbers here.
class RaggedRows {
 public:
  RaggedRows(const py::sequence& rows, size_t item_bytes) {
    for (const py::handle row : rows) {
      if (PyList_CheckExact(row.ptr())) {
        rows_.push_back(numbers(row.ptr()));
      } else if (py::isinstance<py::array>(row)) {
        const auto array = py::reinterpret_borrow<py::array>(row);
        if (array.ndim() < 1) throw py::value_error("pad_rows() needs rows of one dimension or more");
        check(array.shape(0), array.strides(0), item_bytes);
        rows_.push_back({static_cast<const uint8_t*>(array.data()), array.shape(0)});
      } else {
        const collate::RowTable table = tensors::tensor_rows(row.ptr());
        check(table.rows, table.stride_bytes, item_bytes);
        rows_.push_back({table.base, table.rows});
      }
    }
  }
  std::span<const sequences::RaggedRow> view() const { return rows_; }
  size_t bytes(size_t item_bytes) const {
    size_t sum = 0;
    for (const sequences::RaggedRow& row : rows_) sum += static_cast<size_t>(row.items) * item_bytes;
    return sum;
  }
  bool has_lists() const { return !numbers_.empty(); }

 private:
  static void check(int64_t items, int64_t stride_bytes, size_t item_bytes) {
    if (items > 1 && stride_bytes != static_cast<int64_t>(item_bytes))
      throw py::value_error("pad_rows() needs dense rows of the block's type and shape");
  }

  sequences::RaggedRow numbers(PyObject* list) {
    std::vector<int64_t>& row = numbers_.emplace_back(static_cast<size_t>(PyList_GET_SIZE(list)));
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = PyLong_AsLongLong(PyList_GET_ITEM(list, static_cast<Py_ssize_t>(i)));
      if (row[i] == -1 && PyErr_Occurred()) throw py::error_already_set();
    }
    return {reinterpret_cast<const uint8_t*>(row.data()), static_cast<int64_t>(row.size())};
  }

  std::vector<sequences::RaggedRow> rows_;
  std::deque<std::vector<int64_t>> numbers_;
};

constexpr size_t kReleaseBytes = size_t{32}
                                 << 10;  // below it, copying takes less time than asking for the GIL again

void pad(const py::sequence& rows, const py::object& value, const py::object& out, const py::object& mask,
         bool left) {
  const collate::RowTable one = tensors::tensor_rows(value.ptr()), block = tensors::tensor_rows(out.ptr());
  const auto length = py::cast<int64_t>(out.attr("size")(1));
  const size_t row_bytes =
      block.rows > 0 ? py::cast<size_t>(out.attr("nbytes")) / static_cast<size_t>(block.rows) : 0;
  sequences::Padding padding;
  padding.length = length;
  padding.value_bytes = py::cast<size_t>(value.attr("element_size")());
  padding.item_bytes = length > 0 ? row_bytes / static_cast<size_t>(length) : padding.value_bytes;
  padding.value = one.base;
  padding.on_the_left = left;
  const RaggedRows ragged(rows, padding.item_bytes);
  if (ragged.has_lists() && padding.item_bytes != 8)
    throw py::value_error("pad_rows() makes lists of ints to 64 bits; give such a block");
  if (block.rows != static_cast<int64_t>(ragged.view().size()) ||
      (block.rows > 1 && row_bytes > 0 && block.stride_bytes != static_cast<int64_t>(row_bytes)))
    throw py::value_error("pad_rows() needs a dense block with a row for each of the rows");
  int64_t* marks = nullptr;
  if (!mask.is_none()) {
    const collate::RowTable table = tensors::tensor_rows(mask.ptr());
    if (table.rows != block.rows || (table.rows > 1 && length > 0 && table.stride_bytes != length * 8))
      throw py::value_error("pad_rows() needs a dense mask of 64-bit numbers, as large as the block");
    marks = reinterpret_cast<int64_t*>(const_cast<uint8_t*>(table.base));
  }
  auto* const data = const_cast<uint8_t*>(block.base);
  if (ragged.bytes(padding.item_bytes) < kReleaseBytes)
    return sequences::pad_rows(ragged.view(), padding, data, marks);
  py::gil_scoped_release release;
  sequences::pad_rows(ragged.view(), padding, data, marks);
}

}  // namespace

void bind_sequences(py::module_& m) {
  using py::arg;
  py::class_<sequences::SequencePacking>(m, "SequencePacking")
      .def(py::init(&make_packing), arg("lengths"), arg("length"), arg("strategy") = "best_fit",
           arg("window") = int64_t{1} << 16, arg("most_pieces") = 0, arg("too_long") = "split",
           arg("seed") = py::none())
      .def("__len__", &sequences::SequencePacking::size)
      .def("report", &report_of);
  py::class_<sequences::PackOrder>(m, "PackOrder")
      .def(py::init<const sequences::SequencePacking&, uint64_t>(), arg("packing"), arg("epoch"),
           py::keep_alive<1, 2>())
      .def("pieces", &pieces_of, arg("packs"));
  py::class_<Builder>(m, "PackBuilder")
      .def(py::init<const py::sequence&, int64_t, std::optional<int64_t>, const std::string&, bool, int64_t,
                    int64_t, int64_t>(),
           arg("arrays"), arg("length"), arg("separator") = py::none(), arg("targets") = "shift",
           arg("across_documents") = false, arg("pad") = 0, arg("ignore") = -100, arg("vocabulary") = 0)
      .def("build", &Builder::build, arg("order"), arg("packs"), arg("ids"), arg("labels") = py::none(),
           arg("positions") = py::none(), arg("documents") = py::none())
      .def("__len__", &Builder::documents);
  m.def("pad_rows", &pad, arg("rows"), arg("value"), arg("out"), arg("mask") = py::none(),
        arg("left") = false);
}

}  // namespace millrace::python
