#include "devices/architectures.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace mgtrain {
namespace {

constexpr std::string_view kMachineCode = "sm_", kPtx = "compute_";

struct Target {
  bool ptx = false;
  int major = 0, minor = 0;
  char variant = 0;  // 'a': that capability alone; 'f': its family; 0: as the guide's rule
};

Target parse_target(std::string_view text) {
  Target target{.ptx = text.starts_with(kPtx)};
  text.remove_prefix(target.ptx ? kPtx.size() : kMachineCode.size());
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  target.major = number / 10;
  target.minor = number % 10;
  if (end != text.data() + text.size()) target.variant = *end;
  return target;
}

}  // namespace

std::vector<std::string> parse_architectures(std::string_view flags) {
  constexpr std::string_view kCode = "code=";
  std::vector<std::string> found;
  for (size_t at = flags.find(kCode); at != std::string_view::npos; at = flags.find(kCode, at)) {
    at += kCode.size();
    // One "code=" may list several: code=[sm_90,compute_90].
    const size_t end = std::min(flags.find_first_of("; \t\n", at), flags.size());
    std::string_view codes = flags.substr(at, end - at);
    while (!codes.empty()) {
      const size_t stop = std::min(codes.find_first_of(",[]"), codes.size());
      const std::string_view code = codes.substr(0, stop);
      if ((code.starts_with(kMachineCode) || code.starts_with(kPtx)) && std::ranges::find(found, code) == found.end()) {
        found.emplace_back(code);
      }
      codes.remove_prefix(std::min(stop + 1, codes.size()));
    }
  }
  return found;
}

bool runs_on(const std::vector<std::string>& architectures, int major, int minor) {
  return std::ranges::any_of(architectures, [&](const std::string& text) {
    const Target target = parse_target(text);
    if (target.variant == 'a') return target.major == major && target.minor == minor;
    if (target.ptx && target.variant == 0) return std::pair(major, minor) >= std::pair(target.major, target.minor);
    return target.major == major && target.minor <= minor;
  });
}

}  // namespace mgtrain
