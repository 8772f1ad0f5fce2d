#include "api/npy_file.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/dtype.h"
#include "millrace/error.h"

namespace millrace::api {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

[[noreturn]] void refuse(const std::string& path, const std::string& reason, int64_t offset = -1) {
  throw Error(ErrorKind::corrupt_data, path + ": " + reason + "; write the file anew", path, offset);
}

// The header is a dict as Python writes it: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }
class DictReader {
 public:
  DictReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  std::string_view value_of(std::string_view key) {
    const std::string quoted = "'" + std::string(key) + "'";
    size_t at = text_.find(quoted);
    if (at == std::string_view::npos) fail(std::string("has no ") + quoted);
    at = text_.find_first_not_of(" ", at + quoted.size());
    if (at == std::string_view::npos || text_[at] != ':') fail("has no value behind " + quoted);
    at = text_.find_first_not_of(" ", at + 1);
    return at == std::string_view::npos ? std::string_view{} : text_.substr(at);
  }
  [[noreturn]] void fail(const std::string& what) const {
    refuse(path_, "the header of this .npy file " + what, 10);
  }

 private:
  const std::string_view text_;
  const std::string& path_;
};

DType dtype_in(DictReader& dict) {
  const std::string_view text = dict.value_of("descr");
  const size_t end = text.size() > 1 && text[0] == '\'' ? text.find('\'', 1) : std::string_view::npos;
  if (end == std::string_view::npos)
    dict.fail("describes elements of several parts, which batches cannot have");
  const std::string_view descr = text.substr(1, end - 1);
  size_t bytes = 0;
  const bool sized =
      descr.size() > 2 && std::from_chars(descr.data() + 2, descr.data() + descr.size(), bytes).ptr ==
                              descr.data() + descr.size();
  const auto found = sized && descr[0] != '>' ? base::dtype_of(descr[1], bytes) : std::nullopt;
  if (!found) dict.fail("has elements of '" + std::string(descr) + "', which batches cannot have");
  return *found;
}

std::vector<int64_t> shape_in(DictReader& dict) {
  std::string_view text = dict.value_of("shape");
  const size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == std::string_view::npos) dict.fail("has no tuple as its shape");
  text = text.substr(1, end - 1);
  std::vector<int64_t> shape;
  while (true) {
    const size_t at = text.find_first_not_of(" ,");
    if (at == std::string_view::npos) return shape;
    int64_t side = 0;
    const auto read = std::from_chars(text.data() + at, text.data() + text.size(), side);
    if (read.ec != std::errc{} || side < 0) dict.fail("has a shape that is not of whole numbers");
    text = text.substr(static_cast<size_t>(read.ptr - text.data()));
    if (!text.empty() && text[0] == 'L') text = text.substr(1);  // Python 2's long numbers
    shape.push_back(side);
  }
}

}  // namespace

bool is_npy(std::span<const uint8_t> file) {
  return file.size() >= kMagic.size() && std::memcmp(file.data(), kMagic.data(), kMagic.size()) == 0;
}

NpyHeader read_npy_header(std::span<const uint8_t> file, const std::string& path) {
  if (!is_npy(file)) refuse(path, "this is no .npy file: it does not begin with \\x93NUMPY", 0);
  const uint8_t version = file.size() > 6 ? file[6] : 0;
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (version < 1 || version > 3)
    refuse(path, ".npy files of version " + std::to_string(version) + " are not known", 6);
  if (file.size() < 8 + length_bytes) refuse(path, "this .npy file ends within its header", std::ssize(file));
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= size_t{file[8 + i]} << (8 * i);
  NpyHeader header;
  header.begin = 8 + length_bytes + length;
  if (header.begin > file.size()) refuse(path, "this .npy file ends within its header", std::ssize(file));
  DictReader dict({reinterpret_cast<const char*>(file.data()) + 8 + length_bytes, length}, path);
  header.dtype = dtype_in(dict);
  header.shape = shape_in(dict);
  const std::string_view order = dict.value_of("fortran_order");
  header.fortran = order.starts_with("True");
  if (!header.fortran && !order.starts_with("False"))
    dict.fail("has a 'fortran_order' that is neither True nor False");

  size_t bytes = dtype_bytes(header.dtype);
  for (const int64_t side : header.shape)
    bytes = base::checked_mul(bytes, static_cast<size_t>(side), "a .npy file");
  if (bytes > file.size() - header.begin)
    refuse(path,
           "this .npy file has " + std::to_string(file.size() - header.begin) +
               " bytes of elements, and its header " + "promises " + std::to_string(bytes),
           std::ssize(file));
  return header;
}

}  // namespace millrace::api
