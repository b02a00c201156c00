// A launcher's variables, read strictly: every problem is a ConfigError that names the variable, its value, what was
// expected and what to do. A variable with an empty value is not set. Any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "comm/launch_environment.h"

namespace mgtrain {

constexpr int kMaxRanks = 1'000'000;

/// A whole decimal number and nothing else; or nothing.
std::optional<int64_t> read_integer(std::string_view text);

class LaunchVariables {
 public:
  /// `owner` is said in messages ("torchrun's variables"). Keeps a reference to `environment`.
  LaunchVariables(const Environment& environment, std::string owner)
      : environment_(environment), owner_(std::move(owner)) {}

  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return !text(name).empty(); }
  /// "RANK=7"
  [[nodiscard]] std::string shown(std::string_view name) const { return std::string(name) + "=" + text(name); }

  [[nodiscard]] int integer(std::string_view name, int64_t minimum, int64_t maximum, const std::string& why = "") const;
  [[nodiscard]] int count(std::string_view name) const { return integer(name, 1, kMaxRanks); }
  /// A rank below `size`, which stands in the variable `of`.
  [[nodiscard]] int rank(std::string_view name, int size, std::string_view of) const;
  [[nodiscard]] uint16_t port(std::string_view name) const;

  /// Refuses half an environment: each of `names` must be there once one of them or `because` is.
  void need(std::string_view because, std::initializer_list<std::string_view> names) const;
  /// Refuses one of two that is there without the other; whether both are there.
  [[nodiscard]] bool both(std::string_view one, std::string_view other) const;

  [[noreturn]] void refuse(const std::string& problem, const std::string& remedy) const;
  [[noreturn]] void refuse_value(std::string_view name, const std::string& expected) const;

 private:
  const Environment& environment_;
  std::string owner_;
};

}  // namespace mgtrain
