// What is wrong with a data set. A run ends at the first fault; `mgtrain data check` collects them all.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace mgtrain {

class Faults {
 public:
  /// `collect`: keep faults, up to `kMost`, instead of throwing DataError at the first.
  explicit Faults(bool collect = false) : collect_(collect) {}

  /// `fault` names file, record, value seen and value wanted.
  void add(const std::string& fault) {
    if (!collect_) throw DataError(fault);
    if (list_.size() < kMost) list_.push_back(fault);
    ++count_;
  }
  /// What `step` gives, or an empty value after a DataError, which is a fault like others.
  template <typename Step>
  auto attempt(const Step& step) -> decltype(step()) {
    try {
      return step();
    } catch (const DataError& error) {
      add(error.what());
    }
    return decltype(step())();
  }
  [[nodiscard]] const std::vector<std::string>& list() const { return list_; }
  [[nodiscard]] size_t count() const { return count_; }

 private:
  static constexpr size_t kMost = 1000;

  bool collect_;
  std::vector<std::string> list_;
  size_t count_ = 0;
};

}  // namespace mgtrain
