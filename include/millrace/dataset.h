// Dataset: samples that a Loader can make batches of, and how to write one of your own.
//
// A Dataset is a handle: copying it is cheap, and copies are the same dataset. It is immutable, so any number
// of loaders and threads may use it. image_folder.h, shards.h, tokens.h and arrays.h have functions that make
// one.
//
// Your own is a class with three members, which make_dataset() takes:
//
//   struct Points {
//     int64_t size() const { return 1000; }
//     std::vector<FieldSpec> fields() const {
//       return {{"x", DType::f32, {3}}, {"tags", DType::i64, {}, true}};
//     }
//     void read(const SampleKey& key, RowWriter& out) const {
//       std::span<float> x = out.row<float>(0);  // 3 numbers, written in place
//       std::span<int64_t> tags = out.ragged<int64_t>(1, key.index % 4);
//       ...
//     }
//   };
//   millrace::Dataset points = millrace::make_dataset(Points{});
//
// read() is called by the loader's threads, several at once. What it throws is the sample's error:
// std::exception becomes Error(corrupt_data) with its text, and the loader's error policy decides. name() and
// python_class() may be members as well; see SampleReader.
//
// Destructors must not throw. That of a dataset runs when the last handle, loader or batch of it has gone, on
// whichever thread that is; one that throws ends the program, as the language has it, so one that is declared
// to (noexcept(false)) does not compile.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/export.h"
#include "millrace/sample_key.h"

namespace millrace {

// A named part of a sample. A batch has it as one tensor of shape [rows, shape...].
struct FieldSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape{};  // of one sample; empty: a number
  // Each sample has any number of rows of `shape`. A batch has all of them, [total, shape...], and where each
  // sample's begin (Field::offsets).
  bool ragged = false;
  bool operator==(const FieldSpec&) const = default;
};

// Where read() writes a sample. Spans are of the batch's memory itself, aligned for their type, and hold
// anything before they are written.
class MILLRACE_API RowWriter {
 public:
  virtual ~RowWriter() = default;

  // The elements of a field that is not ragged. Throws Error(invalid_argument) where what it requires does
  // not hold, as all calls here.
  // Requires: a field that fields() names, not ragged, of type T.
  template <class T>
  std::span<T> row(size_t field) {
    const auto bytes = fixed(field, DTypeOf<T>::value);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  // Memory for `count` rows of a ragged field, count times its shape's elements. A field that is not asked
  // for has no rows in the sample.
  // Requires: a ragged field of T's type, once for a sample; count >= 0.
  template <class T>
  std::span<T> ragged(size_t field, int64_t count) {
    const auto bytes = varying(field, DTypeOf<T>::value, count);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  // The same by bytes, for types that C++ does not have (f16, bf16, c64, c128).
  virtual std::span<std::byte> bytes(size_t field) = 0;
  virtual std::span<std::byte> ragged_bytes(size_t field, int64_t count) = 0;

 protected:
  virtual std::span<std::byte> fixed(size_t field, DType type) = 0;
  virtual std::span<std::byte> varying(size_t field, DType type, int64_t count) = 0;
};

class MILLRACE_API Dataset {
 public:
  class Impl;  // private

  Dataset() = default;  // no dataset; using it throws Error(invalid_argument)
  explicit Dataset(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  int64_t size() const;  // samples; -1 for a stream that does not know before it was read
  const std::vector<FieldSpec>& fields() const;
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

template <class T>
concept OwnDataset =
    std::is_nothrow_destructible_v<T> && requires(const T& own, const SampleKey& key, RowWriter& out) {
      { own.size() } -> std::convertible_to<int64_t>;
      { own.fields() } -> std::convertible_to<std::vector<FieldSpec>>;
      own.read(key, out);
    };

// The virtual twin of OwnDataset, for classes that are chosen at run time.
class MILLRACE_API SampleReader {
 public:
  virtual ~SampleReader() = default;
  virtual int64_t size() const = 0;
  virtual std::vector<FieldSpec> fields() const = 0;  // asked once
  virtual void read(const SampleKey& key, RowWriter& out) const = 0;
  // For a sample's error: what it is called, "photos/17.jpg", say.
  virtual std::string name(int64_t index) const { return "sample " + std::to_string(index); }
  // The full name of the Python class that gives the same samples, "torch.utils.data.dataset.TensorDataset",
  // say: states of a loader over it are then loaded here, and back. Asked once.
  virtual std::string python_class() const { return "millrace.make_dataset"; }
};

// Throws Error(invalid_argument) where what it requires does not hold.
// Requires: a reader; 0 <= size() <= 2^62; one field at least; names that differ; shapes of 0 or more; at
// most 2^31 - 1 bytes in a sample's fields that are not ragged.
// Requires: read() and name() may be called by any number of threads at a time.
MILLRACE_API Dataset make_dataset(std::shared_ptr<const SampleReader> reader);

template <OwnDataset T>
Dataset make_dataset(T own) {
  struct Reader final : SampleReader {
    explicit Reader(T value) : own(std::move(value)) {}
    int64_t size() const override { return own.size(); }
    std::vector<FieldSpec> fields() const override { return own.fields(); }
    void read(const SampleKey& key, RowWriter& out) const override { own.read(key, out); }
    std::string name(int64_t index) const override {
      if constexpr (requires { std::string(own.name(index)); })
        return own.name(index);
      else
        return SampleReader::name(index);
    }
    std::string python_class() const override {
      if constexpr (requires { std::string(own.python_class()); })
        return own.python_class();
      else
        return SampleReader::python_class();
    }
    const T own;
  };
  return make_dataset(std::make_shared<const Reader>(std::move(own)));
}

}  // namespace millrace
