#include "arrays/chunked_array.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "millrace/error.h"
#include "trace/stage_clock.h"

namespace millrace::arrays {
namespace {

constexpr size_t kMostAxes = 32;

template <typename Word>
void swap_words(uint8_t* bytes, size_t count, Word (*turn)(Word)) {
  for (size_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, bytes + i * sizeof(Word), sizeof(Word));
    word = turn(word);
    std::memcpy(bytes + i * sizeof(Word), &word, sizeof(Word));
  }
}

void swap_groups(std::span<uint8_t> bytes, size_t group) {
  if (group == 2)
    swap_words<uint16_t>(bytes.data(), bytes.size() / 2, [](uint16_t w) { return __builtin_bswap16(w); });
  if (group == 4)
    swap_words<uint32_t>(bytes.data(), bytes.size() / 4, [](uint32_t w) { return __builtin_bswap32(w); });
  if (group == 8)
    swap_words<uint64_t>(bytes.data(), bytes.size() / 8, [](uint64_t w) { return __builtin_bswap64(w); });
}

void fill_with(std::span<const uint8_t> element, std::span<uint8_t> bytes) {
  if (std::all_of(element.begin(), element.end(), [&](uint8_t byte) { return byte == element[0]; })) {
    std::fill(bytes.begin(), bytes.end(), element[0]);
    return;
  }
  for (size_t at = 0; at < bytes.size(); at += element.size())
    std::memcpy(bytes.data() + at, element.data(), element.size());
}

// Copying along one axis: `count` steps, of so many bytes in either memory. The last axis comes last.
struct CopyAxis {
  int64_t count;
  ptrdiff_t from_step, to_step;
};

void copy_axes(std::span<const CopyAxis> axes, size_t run, const uint8_t* from, uint8_t* to) {
  if (axes.empty()) {
    std::memcpy(to, from, run);
    return;
  }
  const CopyAxis& axis = axes.front();
  if (axes.size() == 1 &&
      run == 4) {  // one of every few floats: a call for each would cost more than the copying
    for (int64_t i = 0; i < axis.count; ++i) std::memcpy(to + i * axis.to_step, from + i * axis.from_step, 4);
    return;
  }
  for (int64_t i = 0; i < axis.count; ++i)
    copy_axes(axes.subspan(1), run, from + i * axis.from_step, to + i * axis.to_step);
}

}  // namespace

// The part of a chunk that a box wants, along one axis.
struct ChunkedArray::Cut {
  int64_t first = 0;  // in the chunk
  int64_t step = 1;
  int64_t count = 0;
  int64_t at = 0;  // the first one's place in the box
};

ChunkedArray::ChunkedArray(std::shared_ptr<const io::ByteSource> source, std::string called, ArrayForm form,
                           std::vector<ChunkPlace> places, std::shared_ptr<ChunkCache> cache)
    : source_(std::move(source)), called_(std::move(called)), form_(std::move(form)),
      places_(std::move(places)), cache_(std::move(cache)), in_cache_(cache_ ? cache_->new_array() : 0) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::invalid_argument, source_->name() + ": array '" + called_ + "' " + what,
                source_->name());
  };
  const size_t axes = form_.shape.size();
  if (axes == 0 || axes > kMostAxes || form_.chunk.size() != axes)
    refuse("should have 1 to 32 axes, and chunks of as many");
  const size_t swap = form_.swap_bytes;
  if ((swap != 1 && swap != 2 && swap != 4 && swap != 8) || form_.element_bytes == 0 ||
      form_.element_bytes % swap != 0)
    refuse("has elements of " + std::to_string(form_.element_bytes) + " bytes, whose order in groups of " +
           std::to_string(swap) + " cannot be turned");
  if (form_.fill.size() != form_.element_bytes) refuse("has a fill value of another size than its elements");
  size_t deflates = 0;
  for (const codecs::ChunkFilter& filter : form_.filters) {
    deflates += filter.kind == codecs::ChunkFilter::Kind::deflate;
    if (filter.element_bytes == 0) refuse("is shuffled by elements of no bytes");
  }
  if (deflates > 1 || form_.filters.size() > 32)
    refuse("is deflated more than once, or has more than 32 filters");
  chunk_bytes_ = form_.element_bytes;
  size_t cells = 1;
  for (size_t axis = 0; axis < axes; ++axis) {
    if (form_.shape[axis] < 0 || form_.chunk[axis] < 1) refuse("has a negative shape, or chunks of nothing");
    chunk_bytes_ = base::checked_mul(chunk_bytes_, static_cast<size_t>(form_.chunk[axis]), "a chunk");
    grid_.push_back(form_.shape[axis] / form_.chunk[axis] + (form_.shape[axis] % form_.chunk[axis] != 0));
    cells = base::checked_mul(cells, static_cast<size_t>(grid_.back()), "chunks of an array");
  }
  if (chunk_bytes_ > static_cast<size_t>(PTRDIFF_MAX) || cells > static_cast<size_t>(INT64_MAX))
    refuse("is larger than memory can be");
  std::sort(places_.begin(), places_.end(),
            [](const ChunkPlace& a, const ChunkPlace& b) { return a.cell < b.cell; });
  for (size_t i = 0; i < places_.size(); ++i) {
    const ChunkPlace& place = places_[i];
    if (place.cell < 0 || static_cast<size_t>(place.cell) >= cells) refuse("has a chunk outside its grid");
    if (i > 0 && places_[i - 1].cell == place.cell)
      refuse("has chunk " + std::to_string(place.cell) + " twice");
    if (place.offset < 0 || place.bytes < 0 || place.offset > source_->size() ||
        place.bytes > source_->size() - place.offset)
      throw Error(ErrorKind::corrupt_data,
                  source_->name() + " ends at byte " + std::to_string(source_->size()) + ", before chunk " +
                      std::to_string(place.cell) + " of dataset '" + called_ + "' (" +
                      std::to_string(place.bytes) + " bytes from " + std::to_string(place.offset) +
                      "); it was cut short, copy it again",
                  source_->name(), place.offset);
  }
}

ChunkedArray::~ChunkedArray() {
  if (cache_) cache_->forget(in_cache_);
}

size_t ChunkedArray::box_bytes(std::span<const AxisRange> box) const {
  if (box.size() != form_.shape.size())
    throw Error(ErrorKind::invalid_argument, "a box should have as many axes as its array");
  size_t bytes = form_.element_bytes;
  for (size_t axis = 0; axis < box.size(); ++axis) {
    const AxisRange& range = box[axis];
    const int64_t size = form_.shape[axis];
    // (count - 1) * step, which may overflow, stays below size - start.
    if (range.count < 0 || range.step < 1 || range.start < 0 || range.start > size ||
        (range.count > 0 && (range.start >= size || range.count - 1 > (size - 1 - range.start) / range.step)))
      throw Error(ErrorKind::out_of_range,
                  source_->name() + ": " + std::to_string(range.count) + " elements from " +
                      std::to_string(range.start) + " on are outside axis " + std::to_string(axis) + " of '" +
                      called_ + "', which has " + std::to_string(size),
                  source_->name());
    bytes = base::checked_mul(bytes, static_cast<size_t>(range.count), "a box");
  }
  return bytes;
}

const ChunkPlace* ChunkedArray::find(int64_t cell) const {
  const auto found =
      std::lower_bound(places_.begin(), places_.end(), cell,
                       [](const ChunkPlace& place, int64_t wanted) { return place.cell < wanted; });
  return found != places_.end() && found->cell == cell ? &*found : nullptr;
}

void ChunkedArray::fail(const ChunkPlace& place, std::span<const int64_t> corner, const char* what) const {
  std::string where;
  for (size_t axis = 0; axis < corner.size(); ++axis) {
    const int64_t end = std::min(corner[axis] + form_.chunk[axis], form_.shape[axis]);
    where += (axis == 0 ? "" : ", ") + std::to_string(corner[axis]) + ":" + std::to_string(end);
  }
  throw Error(ErrorKind::corrupt_data,
              source_->name() + ": chunk [" + where + "] of dataset '" + called_ + "', at byte " +
                  std::to_string(place.offset) + ", is damaged: " + what,
              source_->name(), place.offset);
}

// One read(): its box, and memory that its chunks share.
class ChunkedArray::Reading {
 public:
  Reading(const ChunkedArray& array, std::span<const AxisRange> box, std::span<uint8_t> out)
      : array_(array), box_(box), out_(out), cuts_(box.size()), corner_(box.size()) {
    to_steps_.resize(box.size());
    from_steps_.resize(box.size());
    ptrdiff_t to = static_cast<ptrdiff_t>(array.form_.element_bytes), from = to;
    for (size_t axis = box.size(); axis-- > 0;) {
      to_steps_[axis] = to;
      from_steps_[axis] = from;
      to *= static_cast<ptrdiff_t>(box[axis].count);
      from *= static_cast<ptrdiff_t>(array.form_.chunk[axis]);
    }
  }

  void axis(size_t number, int64_t cell) {
    if (number == box_.size()) {
      chunk(cell);
      return;
    }
    const AxisRange& range = box_[number];
    const int64_t size = array_.form_.chunk[number];
    for (int64_t taken = 0; taken < range.count;) {
      const int64_t element = range.start + taken * range.step, at = element / size;
      corner_[number] = at * size;
      Cut& cut = cuts_[number];
      cut.first = element - corner_[number];
      cut.step = range.step;
      cut.count = std::min(range.count - taken, (size - 1 - cut.first) / range.step + 1);
      cut.at = taken;
      axis(number + 1, cell * array_.grid_[number] + at);
      taken += cut.count;
    }
  }

 private:
  void chunk(int64_t cell) {
    const ArrayForm& form = array_.form_;
    ptrdiff_t from = 0, last = 0, to = 0;
    for (size_t axis = 0; axis < cuts_.size(); ++axis) {
      from += static_cast<ptrdiff_t>(cuts_[axis].first) * from_steps_[axis];
      last += static_cast<ptrdiff_t>(cuts_[axis].first + (cuts_[axis].count - 1) * cuts_[axis].step) *
              from_steps_[axis];
      to += static_cast<ptrdiff_t>(cuts_[axis].at) * to_steps_[axis];
    }
    const size_t begin = static_cast<size_t>(from), end = static_cast<size_t>(last) + form.element_bytes;
    const size_t run = plan();
    const bool dense = axes_.empty();  // one run of bytes in either memory
    uint8_t* const target = out_.data() + to;
    const ChunkPlace* place = array_.find(cell);
    if (place == nullptr) {
      const std::span<uint8_t> into = dense ? std::span(target, run) : memory(plain_, end - begin);
      fill_with(form.fill, into);
      if (!dense) copy_axes(axes_, run, into.data(), target);
      return;
    }
    if (form.filters.empty() || all_left_out(*place)) {
      if (static_cast<uint64_t>(place->bytes) < end)
        array_.fail(*place, corner_, "it is shorter than what it should hold");
      const std::span<uint8_t> into = dense ? std::span(target, run) : memory(plain_, end - begin);
      array_.source_->read_at(place->offset + static_cast<int64_t>(begin), into);
      swap_groups(into, form.swap_bytes);
      if (!dense) copy_axes(axes_, run, into.data(), target);
      return;
    }
    if (dense && run == array_.chunk_bytes_) {
      const std::span<uint8_t> into(target, run);
      decode(*place, into);
      swap_groups(into, form.swap_bytes);
      return;
    }
    if (array_.cache_ && array_.cache_->takes(array_.chunk_bytes_)) {
      copy_axes(axes_, run, kept(*place)->bytes.get() + begin, target);
      return;
    }
    const std::span<uint8_t> into = memory(plain_, array_.chunk_bytes_);
    decode(*place, into);
    swap_groups(into.subspan(begin, end - begin), form.swap_bytes);
    copy_axes(axes_, run, into.data() + begin, target);
  }

  void decode(const ChunkPlace& place, std::span<uint8_t> into) {
    const std::span<uint8_t> stored = memory(stored_, static_cast<size_t>(place.bytes));
    array_.source_->read_at(place.offset, stored);
    const trace::StageScope scope(trace::Stage::decode);
    if (const char* wrong = decoder_.decode(stored, array_.form_.filters, place.left_out, into))
      array_.fail(place, corner_, wrong);
  }

  // The chunk as the cache has it, or will have it: in the machine's byte order.
  std::shared_ptr<const DecodedChunk> kept(const ChunkPlace& place) {
    ChunkCache& cache = *array_.cache_;
    if (auto found = cache.find(array_.in_cache_, place.cell)) return found;
    const auto made = std::make_shared<DecodedChunk>(array_.chunk_bytes_);
    const std::span<uint8_t> into(made->bytes.get(), made->size);
    decode(place, into);
    swap_groups(into, array_.form_.swap_bytes);
    cache.add(array_.in_cache_, place.cell, made);
    return made;
  }

  bool all_left_out(const ChunkPlace& place) const {
    const size_t filters = array_.form_.filters.size();
    return (place.left_out | (filters < 32 ? ~uint32_t{0} << filters : 0)) == ~uint32_t{0};
  }

  // Sets axes_ to the loops around runs of bytes that are contiguous in both memories; returns a run's
  // length.
  size_t plan() {
    size_t run = array_.form_.element_bytes;
    axes_.clear();
    for (size_t axis = cuts_.size(); axis-- > 0;) {
      const Cut& cut = cuts_[axis];
      if (cut.count == 1) continue;
      const ptrdiff_t from = static_cast<ptrdiff_t>(cut.step) * from_steps_[axis];
      if (axes_.empty() && from == static_cast<ptrdiff_t>(run) &&
          to_steps_[axis] == static_cast<ptrdiff_t>(run)) {
        run *= static_cast<size_t>(cut.count);
      } else {
        axes_.push_back({cut.count, from, to_steps_[axis]});
      }
    }
    std::reverse(axes_.begin(), axes_.end());
    return run;
  }

  static std::span<uint8_t> memory(std::pair<std::unique_ptr<uint8_t[]>, size_t>& held, size_t bytes) {
    if (held.second < bytes) held = {std::unique_ptr<uint8_t[]>(new uint8_t[bytes]), bytes};  // not zeroed
    return {held.first.get(), bytes};
  }

  const ChunkedArray& array_;
  const std::span<const AxisRange> box_;
  const std::span<uint8_t> out_;
  std::vector<Cut> cuts_;
  std::vector<int64_t> corner_;
  std::vector<ptrdiff_t> from_steps_, to_steps_;
  std::vector<CopyAxis> axes_;
  std::pair<std::unique_ptr<uint8_t[]>, size_t> stored_, plain_;
  codecs::ChunkDecoder decoder_;
};

void ChunkedArray::read(std::span<const AxisRange> box, std::span<uint8_t> out) const {
  const size_t bytes = box_bytes(box);
  if (bytes != out.size())
    throw Error(ErrorKind::invalid_argument, "a box is read into memory of its own size");
  if (bytes == 0) return;
  Reading(*this, box, out).axis(0, 0);
}

}  // namespace millrace::arrays
