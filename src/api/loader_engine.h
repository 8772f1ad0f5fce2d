// LoaderEngine: an Engine over loader::DataLoader, which makes rows of pictures, or of datasets of one's own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "api/engine.h"
#include "loader/data_loader.h"

namespace millrace::api {

// Threads, closing and forks: those of loader::DataLoader, which has a guard of its own.
class LoaderEngine : public Engine {
 public:
  // `fields` makes a batch's fields of what the loader hands out; the consumer calls it.
  using ToFields = std::function<std::vector<Field>(loader::Batch&)>;
  // `restart` is called when an epoch begins, after the loader's own start; may be empty.
  LoaderEngine(std::unique_ptr<loader::DataLoader> loader, ToFields fields,
               std::function<void()> restart = {})
      : loader_(std::move(loader)), fields_(std::move(fields)), restart_(std::move(restart)) {}

  void start_epoch(uint64_t seed, uint64_t epoch) override;
  void skip(std::span<const int64_t> indices) override { loader_->skip(indices); }
  bool submit(std::vector<int64_t> indices) override;
  void end_epoch() override { loader_->end_epoch(); }
  Status next(Made& out, int timeout_ms) override;
  void set_limits(int threads, int slots) override { loader_->set_limits(threads, slots); }
  void close() override { loader_->close(); }
  LoaderStats stats() const override;

 private:
  const std::unique_ptr<loader::DataLoader> loader_;
  const ToFields fields_;
  const std::function<void()> restart_;
  loader::Batch batch_;
};

loader::LoaderOptions loader_options(const EngineOptions& options);

}  // namespace millrace::api
