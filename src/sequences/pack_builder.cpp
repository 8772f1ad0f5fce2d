#include "sequences/pack_builder.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "collate/token_kernels.h"
#include "core/bus_guard.h"
#include "millrace/error.h"

namespace millrace::sequences {
namespace {

// out[i] = token first + i. 64 bits without a sign keep their bits.
void widen_tokens(const TokenArray& array, int64_t first, int64_t count, int64_t* out) {
  const size_t bytes = base::dtype_bytes(array.type), tokens = static_cast<size_t>(count);
  const uint8_t* const from = array.tokens + static_cast<size_t>(first) * bytes;
  if (bytes < sizeof *out)
    collate::widen(from, array.type, base::DType::i64, tokens, out);
  else if (count > 0)
    std::memcpy(out, from, tokens * bytes);
}

void check_array(const TokenArray& array) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::invalid_argument, array.name + ": " + what, array.name);
  };
  const char kind = base::dtype_kind(array.type);
  if (kind != 'i' && kind != 'u')
    refuse(std::string("tokens are integers, not ") + base::dtype_name(array.type) + "; convert them");
  if (array.offsets.empty()) refuse("there are no offsets; n documents have n + 1, the first one 0");
  for (size_t i = 0; i < array.offsets.size(); ++i) {
    const int64_t offset = array.offsets[i];
    if (i > 0 && offset < array.offsets[i - 1])
      refuse("offsets[" + std::to_string(i) + "] is " + std::to_string(offset) +
             ", less than the one before, " + std::to_string(array.offsets[i - 1]) + "; offsets never fall");
    if (offset < 0 || offset > array.count)
      refuse("offsets[" + std::to_string(i) + "] is " + std::to_string(offset) + ", outside the " +
             std::to_string(array.count) + " tokens there are");
  }
}

}  // namespace

PackBuilder::PackBuilder(std::vector<TokenArray> arrays, const PackLayout& layout)
    : arrays_(std::move(arrays)), layout_(layout) {
  if (layout_.length < 1) throw Error(ErrorKind::invalid_argument, "a pack has 1 token or more");
  for (const TokenArray& array : arrays_) {
    check_array(array);
    ends_.push_back(documents() + static_cast<int64_t>(array.offsets.size()) - 1);
  }
}

PackBuilder::Document PackBuilder::document(int64_t number) const {
  if (number < 0 || number >= documents())
    throw Error(ErrorKind::out_of_range, "there are " + std::to_string(documents()) +
                                             " documents, and no document " + std::to_string(number));
  const auto at = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), number) - ends_.begin());
  const TokenArray& array = arrays_[at];
  const auto own = static_cast<size_t>(number - (at == 0 ? 0 : ends_[at - 1]));
  return {&array, array.offsets[own], array.offsets[own + 1] - array.offsets[own]};
}

std::vector<PackBuilder::Placed> PackBuilder::place(std::span<const PackPiece> pieces) const {
  std::vector<Placed> placed;
  placed.reserve(pieces.size());
  int64_t at = 0;
  for (const PackPiece& piece : pieces) {
    const Document whole = document(piece.document);
    const int64_t counted = whole.tokens + (layout_.separator ? 1 : 0);
    if (piece.begin < 0 || piece.tokens < 0 || piece.begin > counted - piece.tokens ||
        piece.tokens > layout_.length - at)
      throw Error(ErrorKind::out_of_range,
                  "a piece is outside its document or its row: the packing was planned for other lengths");
    placed.push_back({whole, piece, at, std::min(piece.tokens, whole.tokens - piece.begin), layout_.ignore});
    at += piece.tokens;
  }
  return placed;
}

// All that is read of the arrays, which may be mapped files that somebody cuts short.
void PackBuilder::read(std::span<Placed> placed, int64_t* ids) const {
  const void* fault = nullptr;
  const bool whole = core::guarded(
      [&] {
        for (Placed& each : placed) {
          const auto& [array, first, tokens] = each.document;
          const int64_t end = each.piece.begin + each.piece.tokens;
          widen_tokens(*array, first + each.piece.begin, each.stored, ids + each.at);
          if (end < tokens) widen_tokens(*array, first + end, 1, &each.next);
        }
      },
      &fault);
  if (whole) return;
  const auto* const at = static_cast<const uint8_t*>(fault);
  for (const TokenArray& array : arrays_) {
    const auto bytes = static_cast<size_t>(array.count) * base::dtype_bytes(array.type);
    if (at >= array.tokens && at < array.tokens + bytes)
      throw Error(
          ErrorKind::corrupt_data,
          array.name + ": the file is shorter than when it was mapped; write it again, and map it anew",
          array.name, at - array.tokens);
  }
  throw Error(ErrorKind::corrupt_data,
              "a mapped file of tokens is shorter than when it was mapped; write it again, and map it anew");
}

void PackBuilder::build(std::span<const PackPiece> pieces, const PackRow& row) const {
  std::vector<Placed> placed = place(pieces);
  read(placed, row.ids);
  int32_t number = 0;
  for (Placed& each : placed) {
    const auto& [whole, piece, at, stored, next] = each;
    if (layout_.vocabulary > 0) check_vocabulary(each, row.ids + at);
    if (stored < piece.tokens) row.ids[at + stored] = *layout_.separator;
    if (row.labels && !layout_.across_documents) label(each, row);
    if (row.positions) std::iota(row.positions + at, row.positions + at + piece.tokens, int64_t{0});
    if (row.documents) std::fill_n(row.documents + at, piece.tokens, number++);
  }
  const int64_t at = placed.empty() ? 0 : placed.back().at + placed.back().piece.tokens;
  const int64_t rest = layout_.length - at;
  if (row.labels && layout_.across_documents && at > 0) {
    const int64_t shift = layout_.targets == PackTargets::next;
    std::copy(row.ids + shift, row.ids + at, row.labels);
    if (shift) row.labels[at - 1] = layout_.ignore;
  }
  std::fill_n(row.ids + at, rest, layout_.pad);
  if (row.labels) std::fill_n(row.labels + at, rest, layout_.ignore);
  if (row.positions) std::iota(row.positions + at, row.positions + layout_.length, int64_t{0});
  if (row.documents) std::fill_n(row.documents + at, rest, -1);
}

void PackBuilder::label(const Placed& placed, const PackRow& row) const {
  const auto& [whole, piece, at, stored, next] = placed;
  const int64_t* const ids = row.ids + at;
  int64_t* const labels = row.labels + at;
  if (piece.tokens == 0) return;
  if (layout_.targets == PackTargets::same) {
    labels[0] = layout_.ignore;
    std::copy(ids + 1, ids + piece.tokens, labels + 1);
    return;
  }
  std::copy(ids + 1, ids + piece.tokens, labels);
  const bool before_separator = layout_.separator && piece.begin + piece.tokens == whole.tokens;
  labels[piece.tokens - 1] = before_separator ? *layout_.separator : next;
}

void PackBuilder::check_vocabulary(const Placed& placed, const int64_t* ids) const {
  const auto& [whole, piece, at, stored, next] = placed;
  const auto check = [&](const int64_t* tokens, int64_t count, int64_t first) {
    const auto wrong = static_cast<int64_t>(
        collate::find_outside(tokens, base::DType::i64, static_cast<size_t>(count), layout_.vocabulary - 1));
    if (wrong == count) return;
    throw Error(ErrorKind::corrupt_data,
                whole.array->name + ": token " + std::to_string(first + wrong) + " of document " +
                    std::to_string(piece.document) + " is " + std::to_string(tokens[wrong]) +
                    ", and the vocabulary has 0 to " + std::to_string(layout_.vocabulary - 1) +
                    "; check the tokenizer and the dtype",
                whole.array->name, whole.first + first + wrong);
  };
  check(ids, stored, piece.begin);
  const int64_t end = piece.begin + piece.tokens;
  if (end < whole.tokens) check(&next, 1, end);
}

}  // namespace millrace::sequences
