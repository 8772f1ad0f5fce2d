#include "sources/arrow_pictures.h"

#include <algorithm>
#include <cstring>

#include "core/bus_guard.h"
#include "millrace/error.h"

namespace millrace::sources {

ArrowPictures::ArrowPictures(std::string column, std::vector<Chunk> chunks)
    : column_(std::move(column)), chunks_(std::move(chunks)) {
  int64_t end = 0;
  for (const Chunk& chunk : chunks_) {
    for (const uint8_t kind : chunk.kinds)
      if (kind > kPath || (kind == kBytes && !chunk.bytes.offsets) || (kind == kPath && !chunk.paths.offsets))
        throw Error(ErrorKind::invalid_argument, "a row of column '" + column_ + "' is of kind " +
                                                     std::to_string(kind) +
                                                     ", which its chunk does not have");
    end += static_cast<int64_t>(chunk.kinds.size());
    ends_.push_back(end);
  }
}

std::pair<const ArrowPictures::Chunk*, size_t> ArrowPictures::place(int64_t index) const {
  if (index < 0 || index >= size())
    throw Error(ErrorKind::out_of_range,
                row_name(index) + " is not one of the column's " + std::to_string(size()));
  const auto chunk = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  return {&chunks_[chunk], static_cast<size_t>(index - (chunk == 0 ? 0 : ends_[chunk - 1]))};
}

std::string ArrowPictures::row_name(int64_t index) const {
  return "row " + std::to_string(index) + " of column '" + column_ + "'";
}

std::string ArrowPictures::name(int64_t index) const {
  const auto [chunk, row] = place(index);
  const std::string number = row_name(index);
  if (!chunk->paths.offsets) return number;
  std::string found;
  try {
    found = path(*chunk, row, index);
  } catch (const Error&) {  // the name is for the message of another error
    return number;
  }
  return found.empty() ? number : chunk->kinds[row] == kPath ? found : number + " (" + found + ")";
}

void ArrowPictures::read(int64_t index, io::FileBuffer& into) const {
  const auto [chunk, row] = place(index);
  switch (chunk->kinds[row]) {
    case kBytes: {
      const std::span<const uint8_t> bytes = find(chunk->bytes, row, index);
      copy(bytes, into.resize(bytes.size()).data(), index);
      return;
    }
    case kPath: {
      const std::string file = path(*chunk, row, index);
      if (file.find('\0') != std::string::npos)
        throw Error(ErrorKind::corrupt_data, row_name(index) + " has a path with a null character in it");
      io::read_file(file, into);
      return;
    }
    default:
      throw Error(ErrorKind::corrupt_data,
                  row_name(index) + " is null: it has no picture; leave such rows out with filter()");
  }
}

std::string ArrowPictures::path(const Chunk& chunk, size_t row, int64_t index) const {
  const std::span<const uint8_t> found = find(chunk.paths, row, index);
  std::string made(found.size(), '\0');
  copy(found, reinterpret_cast<uint8_t*>(made.data()), index);
  return made;
}

std::span<const uint8_t> ArrowPictures::find(const Strings& strings, size_t row, int64_t index) const {
  int32_t ends[2];
  copy({strings.offsets + row * sizeof(int32_t), sizeof ends}, reinterpret_cast<uint8_t*>(ends), index);
  if (ends[0] < 0 || ends[1] < ends[0] || std::cmp_greater(ends[1], strings.data.size()))
    throw Error(ErrorKind::corrupt_data,
                row_name(index) + " lies outside of its chunk: the Arrow file is damaged; make it again");
  return strings.data.subspan(static_cast<size_t>(ends[0]), static_cast<size_t>(ends[1] - ends[0]));
}

void ArrowPictures::copy(std::span<const uint8_t> from, uint8_t* to, int64_t index) const {
  const void* at = nullptr;
  if (from.empty() || core::guarded([&] { std::memcpy(to, from.data(), from.size()); }, &at)) return;
  throw Error(ErrorKind::corrupt_data,
              row_name(index) +
                  " lies in a mapped file that is shorter than it was when it was opened: "
                  "somebody cut it short while it was in use");
}

}  // namespace millrace::sources
