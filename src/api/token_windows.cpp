// token_windows(): rows of mapped files that overlap, widened on their way into a batch.
//
//   file ──▶ table of rows: one begins every `stride` ids ──▶ input_ids ┐ the same rows,
//                                                         └──▶ labels   ┘ one id further on
#include <algorithm>
#include <utility>

#include "api/array_dataset.h"
#include "api/token_file.h"
#include "millrace/error.h"
#include "millrace/tokens.h"

namespace millrace {
namespace {

[[noreturn]] void refuse_windows(const std::string& rule) {
  throw Error(ErrorKind::invalid_argument, "token_windows(): " + rule);
}

class TokenWindows final : public api::ArrayDataset {
 public:
  TokenWindows(std::vector<api::TokenFile> files, int64_t size, std::vector<FieldSpec> fields,
               std::vector<Rows> rows)
      : ArrayDataset(size, std::move(fields), std::move(rows)), files_(std::move(files)) {}

  std::string python_class() const override { return "millrace.datasets.tokens.dataset.Tokens"; }

 private:
  const std::vector<api::TokenFile> files_;  // what the rows lie in
};

// The ids at [first, first + length) of each window.
api::ArrayDataset::Rows rows_from(const std::vector<api::TokenFile>& files, int64_t first, int64_t stride,
                                  const TokenOptions& options) {
  const auto item = static_cast<int64_t>(dtype_bytes(files[0].dtype));
  collate::RowMakerOptions maker;
  maker.stored = files[0].dtype;
  maker.made = DType::i64;
  maker.elements = static_cast<size_t>(options.length);
  maker.guarded = true;
  if (options.vocabulary) maker.highest = *options.vocabulary - 1;
  api::ArrayDataset::Rows rows;
  rows.mapped = true;
  for (const api::TokenFile& file : files) {
    rows.field.tables.push_back({file.ids + first * item, (file.count - options.length - 1) / stride + 1,
                                 std::min(stride, file.count) * item});  // a larger one has one window
    const auto bytes = file.file->bytes();
    maker.files.push_back({bytes.data(),
                           bytes.data() + bytes.size(),
                           file.file->path(),
                           0,
                           [mapping = file.file] { return mapping->shrank(); },
                           bytes.data(),
                           {}});
  }
  rows.field.ends = collate::table_ends(rows.field.tables);
  rows.maker.emplace(std::move(maker));
  rows.field.row_bytes = rows.maker->made_bytes();
  return rows;
}

}  // namespace

Dataset token_windows(const std::vector<std::string>& paths, const TokenOptions& options) {
  if (paths.empty()) refuse_windows("paths is empty; give at least one file of tokens");
  if (options.length < 1) refuse_windows("length is " + std::to_string(options.length) + "; give 1 or more");
  const int64_t stride = options.stride.value_or(options.length);
  if (stride < 1) refuse_windows("stride is " + std::to_string(stride) + "; give 1 or more");
  if (options.vocabulary && *options.vocabulary < 1)
    refuse_windows("vocabulary is " + std::to_string(*options.vocabulary) + "; give 1 or more");
  std::vector<api::TokenFile> files;
  int64_t longest = 0;
  for (const std::string& path : paths) {
    api::TokenFile file = api::open_token_file(path, options.dtype);
    if (!files.empty() && file.dtype != files[0].dtype)
      refuse_windows(path + " holds " + dtype_name(file.dtype) + " and " + files[0].file->path() + " " +
                     dtype_name(files[0].dtype) + "; make a dataset of each, or write them alike");
    longest = std::max(longest, file.count);
    files.push_back(std::move(file));
  }
  std::erase_if(files, [&](const api::TokenFile& file) { return file.count <= options.length; });
  if (files.empty())
    throw Error(ErrorKind::invalid_argument,
                "no window: a length of " + std::to_string(options.length) +
                    " needs one token more than that, and " + paths[0] +
                    (paths.size() > 1 ? " and the others have at most " : " has ") + std::to_string(longest) +
                    " in a row; use a smaller length",
                paths[0]);
  std::vector<api::ArrayDataset::Rows> rows;
  for (const int64_t first : {0, 1}) rows.push_back(rows_from(files, first, stride, options));
  const int64_t size = rows[0].field.ends.back();
  std::vector<FieldSpec> fields{{"input_ids", DType::i64, {options.length}},
                                {"labels", DType::i64, {options.length}}};
  return Dataset(
      std::make_shared<const TokenWindows>(std::move(files), size, std::move(fields), std::move(rows)));
}

}  // namespace millrace
