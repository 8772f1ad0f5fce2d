// PackBuilder: writes planned packs as rows of 64-bit token ids, with labels, positions and the number of
// each token's document.
//
// Documents lie one after another in flat arrays of integers of any width, counted through all arrays. The
// arrays are borrowed: the caller keeps them alive and in place. Immutable; any thread. About 5
// ns per token for all outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "sequences/sequence_packing.h"

namespace millrace::sequences {

// Document i of an array: tokens offsets[i] .. offsets[i + 1] - 1.
struct TokenArray {
  const uint8_t* tokens = nullptr;
  base::DType type = base::DType::i64;
  int64_t count = 0;  // of tokens
  std::span<const int64_t> offsets;
  std::string name;  // for messages
};

// next: labels[t] is the token that follows t in its document, wherever that lies, or `ignore` where the
// document ends. same: labels[t] is token t, and `ignore` where a piece begins, for models that shift labels
// themselves.
enum class PackTargets : uint8_t { next, same };

struct PackLayout {
  int64_t length = 0;  // of a row
  std::optional<int64_t>
      separator{};  // a token after each document; counted in PackPiece, the document's last one
  PackTargets targets = PackTargets::next;
  bool across_documents = false;   // labels know no documents: the next token of the row, or all tokens
  int64_t pad = 0, ignore = -100;  // after the last piece: of ids, of labels
  int64_t vocabulary = 0;          // ids are 0 .. vocabulary - 1; 0: not checked
};

// `length` elements each; null where they are not wanted.
struct PackRow {
  int64_t* ids = nullptr;  // always wanted
  int64_t* labels = nullptr;
  int64_t* positions = nullptr;  // 0, 1, 2, ... of each piece, and of the padding
  int32_t* documents = nullptr;  // 0, 1, 2, ... by piece; -1 in the padding
};

class PackBuilder {
 public:
  // Throws Error(invalid_argument) for offsets that fall, or point outside their array, and for elements that
  // are no integers.
  PackBuilder(std::vector<TokenArray> arrays, const PackLayout& layout);

  // Throws Error(corrupt_data) for an id outside the vocabulary, or a mapped file that was cut short;
  // Error(out_of_range) for pieces that are not in their documents or do not fit the row.
  void build(std::span<const PackPiece> pieces, const PackRow& row) const;

  int64_t documents() const { return ends_.empty() ? 0 : ends_.back(); }
  const PackLayout& layout() const { return layout_; }

 private:
  struct Document {
    const TokenArray* array = nullptr;
    int64_t first = 0, tokens = 0;  // in the array, without a separator
  };
  struct Placed {  // a piece in a row
    Document document;
    PackPiece piece;
    int64_t at = 0, stored = 0;  // in the row; of its tokens, those that are no separator
    int64_t next = 0;            // the token after it in its document; `ignore`: none
  };
  Document document(int64_t number) const;
  std::vector<Placed> place(std::span<const PackPiece> pieces) const;
  void read(std::span<Placed> placed, int64_t* ids) const;
  void check_vocabulary(const Placed& placed, const int64_t* ids) const;
  void label(const Placed& placed, const PackRow& row) const;

  std::vector<TokenArray> arrays_;
  std::vector<int64_t> ends_;  // documents in the arrays up to each
  PackLayout layout_;
};

}  // namespace millrace::sequences
