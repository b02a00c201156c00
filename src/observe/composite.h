// Several observers as one. Each is told everything, also when another throws: a full disk must not keep the
// console from its last line. The first error is thrown on once all were told.
#pragma once

#include <exception>
#include <utility>
#include <vector>

#include "observe/observer.h"

namespace mgtrain {

class CompositeObserver final : public Observer {
 public:
  CompositeObserver() = default;
  /// The observers are told in this order and must outlive this object.
  explicit CompositeObserver(std::vector<Observer*> observers) : observers_(std::move(observers)) {}
  void add(Observer& observer) { observers_.push_back(&observer); }

  void on_start(const StartReport& report) override {
    tell([&](Observer& o) { o.on_start(report); });
  }
  void on_progress(const Progress& progress) override {
    tell([&](Observer& o) { o.on_progress(progress); });
  }
  void on_step(const StepReport& report) override {
    tell([&](Observer& o) { o.on_step(report); });
  }
  void on_eval(const EvalReport& report) override {
    tell([&](Observer& o) { o.on_eval(report); });
  }
  void on_checkpoint(const CheckpointReport& report) override {
    tell([&](Observer& o) { o.on_checkpoint(report); });
  }
  void on_warning(const std::string& kind, const std::string& text) override {
    tell([&](Observer& o) { o.on_warning(kind, text); });
  }
  void on_device_fallback(const std::string& requested, const std::string& used, const std::string& reason) override {
    tell([&](Observer& o) { o.on_device_fallback(requested, used, reason); });
  }
  void on_scaling(const ScalingReport& report) override {
    tell([&](Observer& o) { o.on_scaling(report); });
  }
  void on_end(const EndReport& report) override {
    tell([&](Observer& o) { o.on_end(report); });
  }
  void flush() override {
    tell([](Observer& o) { o.flush(); });
  }

 private:
  template <typename Call>
  void tell(Call&& call) {
    std::exception_ptr first;
    for (Observer* observer : observers_) {
      try {
        call(*observer);
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  }

  std::vector<Observer*> observers_;
};

}  // namespace mgtrain
