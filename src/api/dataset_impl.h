// Dataset::Impl: the interface of every kind of dataset.
//
// Immutable, any thread. An engine that it opened keeps it alive (hence shared_from_this), so a Dataset may
// go before the loaders over it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/engine.h"
#include "millrace/dataset.h"

namespace millrace {

class MILLRACE_PRIVATE Dataset::Impl : public std::enable_shared_from_this<Dataset::Impl> {
 public:
  virtual ~Impl() = default;

  virtual int64_t size() const = 0;  // -1: a stream
  virtual const std::vector<FieldSpec>& fields() const = 0;
  // How a state calls the dataset: the full name of the Python class that gives the same samples.
  virtual std::string python_class() const = 0;
  // Whether a state of the dataset `name` is of the same samples; more than one class may give them.
  virtual bool is_called(std::string_view name) const { return name == python_class(); }
  virtual std::unique_ptr<api::Engine> open(const api::EngineOptions& options) const = 0;
};

}  // namespace millrace
