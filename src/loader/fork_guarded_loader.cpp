// make_loader(): an Engine with a guard against use in a forked child.

#include <string>
#include <utility>

#include "core/fork_guard.h"
#include "core/thread_group.h"
#include "loader/engine.h"
#include "loader/row_source.h"

namespace millrace::loader {
namespace {

void check(const LoaderOptions& options) {
  if (options.threads < 0)
    throw Error(ErrorKind::invalid_argument, "the number of worker threads must not be negative, got " +
                                                 std::to_string(options.threads) +
                                                 "; 0 works in the caller's thread");
  if (options.slots < 1)
    throw Error(ErrorKind::invalid_argument,
                "a loader needs at least one slot for a batch, got " + std::to_string(options.slots));
}

// Forwards to the engine in the process that made it. In a forked child the engine's threads do not exist and
// its locks may be shut for ever: there every call is refused, and the engine is left alone, also by the
// destructor.
class ForkGuardedLoader final : public DataLoader {
 public:
  ForkGuardedLoader(RowSource source, const LoaderOptions& options)
      : engine_(std::make_unique<Engine>(std::move(source), options)) {}
  ~ForkGuardedLoader() override {
    if (in_child()) {
      static_cast<void>(engine_.release());
    } else if (engine_->on_own_thread()) {
      engine_->close();
      core::delete_on_another_thread(std::move(engine_));
    }
  }

  void start_epoch(uint64_t seed, uint64_t epoch) override { engine().start_epoch(seed, epoch); }
  void submit(std::vector<int64_t> indices, BatchMix mix, size_t form) override {
    engine().submit(std::move(indices), std::move(mix), form);
  }
  void skip(std::span<const int64_t> indices) override { engine().skip(indices); }
  void end_epoch() override { engine().end_epoch(); }
  Status next(Batch& out, int timeout_ms) override { return engine().next(out, timeout_ms); }
  void set_limits(int active_threads, int slots) override { engine().set_limits(active_threads, slots); }
  void close() override {
    if (!in_child()) engine_->close();
  }
  LoaderStats stats() const override { return engine().stats(); }
  LoaderSnapshot snapshot() const override { return engine().snapshot(); }
  std::vector<trace::StageReading> clocks() const override {
    return in_child() ? std::vector<trace::StageReading>{} : engine_->clocks();
  }

 private:
  bool in_child() const { return generation_ != core::fork_generation(); }
  Engine& engine() const {
    if (in_child())
      throw Error(ErrorKind::unavailable,
                  "this loader was made before fork(): its threads do not exist in the child process; make a "
                  "new loader here");
    return *engine_;
  }

  const uint64_t generation_ = core::fork_generation();
  std::unique_ptr<Engine> engine_;
};

}  // namespace

std::unique_ptr<DataLoader> make_loader(RowSource source, const LoaderOptions& options) {
  check(options);
  return std::make_unique<ForkGuardedLoader>(std::move(source), options);
}

}  // namespace millrace::loader
