#include "api/token_file.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "api/npy_file.h"
#include "base/dtype.h"
#include "millrace/error.h"

namespace millrace::api {
namespace {

// llm.c's files (dev/data/data_common.py there): 256 int32, of which the first three are a magic number, a
// version and the number of ids.
constexpr size_t kLlmcHeader = 1024;

std::optional<DType> llmc_type(uint32_t magic, uint32_t version) {
  if (magic == 20240520 && version == 1) return DType::u16;
  if (magic == 20240801 && version == 7) return DType::u32;
  return std::nullopt;
}

[[noreturn]] void damaged(const std::string& path, const std::string& reason) {
  throw Error(ErrorKind::corrupt_data, path + ": " + reason, path);
}

void check_type(const std::string& path, DType dtype) {
  const char kind = base::dtype_kind(dtype);
  if ((kind != 'i' && kind != 'u') || dtype == DType::u64)
    throw Error(ErrorKind::invalid_argument,
                path + " holds " + dtype_name(dtype) +
                    "; token files hold whole numbers that int64 holds: write "
                    "them as uint16 or uint32",
                path);
}

// `count` ids from byte `begin` on; none given: up to the end.
TokenFile ids_in(std::shared_ptr<const io::MappedFile> file, DType dtype, size_t begin,
                 std::optional<int64_t> count) {
  const std::string& path = file->path();
  check_type(path, dtype);
  const size_t size = dtype_bytes(dtype), there = file->bytes().size() - begin;
  const std::string ids = std::string(dtype_name(dtype)) + " ids";
  if (!count && there % size != 0)
    damaged(path, std::to_string(there) + " bytes are no whole number of " + ids + " of " +
                      std::to_string(size) + " bytes; the file is of another dtype, or was cut short");
  TokenFile found{std::move(file), dtype, nullptr, count.value_or(static_cast<int64_t>(there / size))};
  if (there / size < static_cast<size_t>(found.count))
    damaged(path, "the file ends before the last of its " + std::to_string(found.count) + " " + ids +
                      "; it was cut short");
  if (found.count == 0) damaged(path, "the file has no token ids; leave it out");
  found.ids = found.file->bytes().data() + begin;
  return found;
}

}  // namespace

TokenFile open_token_file(const std::string& path, DType dtype) {
  for (const std::string_view ending : {".npz", ".gz", ".zst", ".xz", ".bz2", ".zip"})
    if (path.ends_with(ending))
      throw Error(ErrorKind::invalid_argument,
                  path +
                      " is compressed, so its tokens cannot be read in place; unpack it, or save the "
                      "tokens as .npy",
                  path);
  const auto file = std::make_shared<const io::MappedFile>(path);
  const auto bytes = file->bytes();
  if (bytes.empty()) damaged(path, "the file is empty; it should hold token ids");
  if (is_npy(bytes)) {
    const NpyHeader header = read_npy_header(bytes, path);
    if (header.shape.size() != 1)
      throw Error(ErrorKind::invalid_argument,
                  path + " has " + std::to_string(header.shape.size()) +
                      " dimensions; a file of tokens is one row of them: write it with one dimension",
                  path);
    return ids_in(file, header.dtype, header.begin, header.shape[0]);
  }
  if (bytes.size() >= kLlmcHeader) {
    uint32_t head[3];
    std::memcpy(head, bytes.data(), sizeof head);
    if (const auto stored = llmc_type(head[0], head[1]))
      return ids_in(file, *stored, kLlmcHeader, static_cast<int64_t>(head[2]));
  }
  return ids_in(file, dtype, 0, std::nullopt);
}

}  // namespace millrace::api
