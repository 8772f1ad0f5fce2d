// Files of token ids for language models: windows of fixed length, and documents packed into rows.
//
// Files are mapped, so they may be larger than memory: .npy of one dimension, llm.c's .bin, or ids of a DType
// and nothing else. Ids are whole numbers of any width that int64 holds, and widened to it on their way into
// the batch. A file that is cut short later is an Error(corrupt_data) with its name, in the place of a batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/dataset.h"
#include "millrace/dtype.h"
#include "millrace/export.h"

namespace millrace {

struct TokenOptions {
  int64_t length = 0;               // tokens of a window
  std::optional<int64_t> stride{};  // from a window's beginning to the next one's; missing: length
  DType dtype = DType::u16;         // of files that do not say it themselves
  // Ids are 0 .. vocabulary - 1; another one is Error(corrupt_data) in the place of its batch, under every
  // error policy. Missing: not checked.
  std::optional<int64_t> vocabulary{};
};

// Windows of each file, as millrace.datasets.Tokens in Python has them, to the byte. Fields, i64 [length]:
// "input_ids", the tokens t .. t + length - 1, and "labels", those one further on. No window crosses from a
// file into the next; a rest at a file's end, or a file, too short for a window is left out.
//
// Throws Error(not_found | system) for a file that cannot be opened; Error(corrupt_data) for one that is
// empty, ends within an id, or is shorter than its header says; Error(invalid_argument) where what it
// requires does not hold.
// Requires: length >= 1; stride >= 1; vocabulary >= 1.
// Requires: files of whole numbers of one type, not compressed; one of them long enough for a window.
MILLRACE_API Dataset token_windows(const std::vector<std::string>& paths, const TokenOptions& options);

struct PackingOptions {
  int64_t length = 0;                   // of a row; 1 to 2^24
  std::optional<int64_t> separator{};   // a token after each document, counted as its last
  int64_t pad = 0, ignore = -100;       // after the last document of a row: of input_ids, of labels
  bool positions = false;               // one more field, "position_ids", i64: 0, 1, ... in each document
  bool documents = false;               // and "document_ids", i32: its number in the row; -1 in the padding
  uint64_t seed = 0;                    // with Loader::epoch(): which documents of equal length change places
  std::optional<int64_t> vocabulary{};  // as in TokenOptions, but an id outside is its row's error
};

// Documents packed into rows of `length`, little of which is padding: document i is the tokens offsets[i] ..
// offsets[i + 1] - 1 of the file. Whole, but for those longer than a row, which are split. Rows are those of
// millrace.datasets.PackedSequences in Python, to the byte, where set_epoch() was given Loader::epoch(). How
// many there are is the same in every epoch. Fields "input_ids" and "labels", i64 [length]; labels know no
// token of another document, and are `ignore` where a document ends.
//
// Throws what token_windows() throws of files, and Error(invalid_argument) where what it requires does not
// hold.
// Requires: 1 <= length <= 2^24; two offsets at least, which do not fall and lie within the file's tokens.
MILLRACE_API Dataset packed_documents(const std::string& tokens, std::vector<int64_t> offsets, DType dtype,
                                      const PackingOptions& options);

}  // namespace millrace
