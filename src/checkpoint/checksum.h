// XXH3-128, the checksum of checkpoint files. It finds damage; it is no protection against an attacker.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace mgtrain {

/// XXH3-128 as 32 hex digits (the canonical order, as xxhsum prints it), streaming.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mgtrain
