#include "devices/request.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "base/error.h"

namespace mgtrain {
namespace {

constexpr int kMostDevices = 1024;  // a typing error such as 0-99999999 must not become memory

constexpr std::string_view kForms =
    "expected auto, all, a count such as 2, indices such as `0,1`, `3,` or `0-3`, a UUID such as GPU-8a1f, cpu or "
    "cpu:4";

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

[[noreturn]] void refuse(std::string_view spec, const std::string& problem) {
  throw ConfigError("--gpus " + quoted(spec) + ": " + problem);
}

/// A number of at most kMostDevices from digits.
int parse_number(std::string_view digits, std::string_view spec) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value > kMostDevices) {
    refuse(spec, quoted(digits) + " is more than any machine has (the largest number is " +
                     std::to_string(kMostDevices) + ")");
  }
  return value;
}

bool looks_like_uuid(std::string_view text) { return uuid_starts_with(text, "GPU-") || uuid_starts_with(text, "MIG-"); }

std::string hint_for_text(std::string_view item) {
  if (uuid_starts_with(item, "cuda:") && all_digits(item.substr(5))) {
    return "; write `" + std::string(item.substr(5)) + ",` for that GPU";
  }
  for (const std::string_view keyword : {"auto", "all", "cpu"}) {
    if (item == keyword) return "; " + std::string(keyword) + " stands alone, not in a list";
    if (uuid_starts_with(item, keyword) && item.size() == keyword.size()) {
      return "; write " + std::string(keyword) + " in lower case";
    }
  }
  if (item.starts_with("cpu:")) return "; cpu:N stands alone, not in a list";
  return std::string("; ") + std::string(kForms);
}

/// One item of a list, which may be a range of indices.
void append_item(std::string_view raw, std::string_view spec, std::vector<DeviceItem>& items) {
  const std::string_view item = trim(raw);
  if (item.empty()) refuse(spec, "an item is empty (one trailing comma is allowed, as in `3,`)");
  if (looks_like_uuid(item)) {
    items.push_back({std::string(item), std::string(item)});
    return;
  }
  if (all_digits(item)) {
    const int index = parse_number(item, spec);
    items.push_back({index, std::to_string(index)});
    return;
  }
  if (item.front() == '-' && all_digits(item.substr(1))) {
    refuse(spec, quoted(item) + " is negative; indices start at 0");
  }
  const size_t dash = item.find('-');
  if (dash != std::string_view::npos && all_digits(item.substr(0, dash)) && all_digits(item.substr(dash + 1))) {
    const int first = parse_number(item.substr(0, dash), spec), last = parse_number(item.substr(dash + 1), spec);
    if (last < first) {
      refuse(spec, "the range " + quoted(item) + " runs backwards; write " + std::to_string(last) + "-" +
                       std::to_string(first) + ", or list the indices in the order wanted");
    }
    for (int index = first; index <= last; ++index) items.push_back({index, std::to_string(index)});
    return;
  }
  refuse(spec, quoted(item) + " is not a device" + hint_for_text(item));
}

void refuse_duplicates(const std::vector<DeviceItem>& items, std::string_view spec) {
  for (size_t i = 0; i < items.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (items[i].what == items[j].what) refuse(spec, quoted(items[i].text) + " is named twice");
    }
  }
}

CpuRequest parse_cpu(std::string_view text, std::string_view spec) {
  if (text == "cpu") return {};
  const std::string_view digits = text.substr(4);
  if (!all_digits(digits)) {
    refuse(spec, quoted(digits) + " is not a number of CPU replicas; write cpu:4, or cpu for the CPU as one device");
  }
  const int replicas = parse_number(digits, spec);
  if (replicas == 0) refuse(spec, "0 CPU replicas compute nothing; write cpu or cpu:1");
  return {replicas};
}

}  // namespace

bool uuid_starts_with(std::string_view uuid, std::string_view prefix) {
  return uuid.size() >= prefix.size() &&
         std::ranges::equal(
             uuid.substr(0, prefix.size()), prefix, {}, [](unsigned char c) { return std::tolower(c); },
             [](unsigned char c) { return std::tolower(c); });
}

DeviceRequest parse_device_request(std::string_view spec, bool allow_duplicates, bool simulated) {
  const std::string_view text = trim(spec);
  if (text.empty()) refuse(spec, std::string("it is empty; ") + std::string(kForms));
  if (text == "auto") return AutoRequest{};
  if (text == "all") return AllRequest{};
  if (text == "cpu" || (text.starts_with("cpu:") && text.find(',') == std::string_view::npos)) {
    return parse_cpu(text, spec);
  }
  if (simulated && text.starts_with("sim:") && all_digits(text.substr(4)))
    return SimulatedRequest{parse_number(text.substr(4), spec)};
  if (all_digits(text)) {
    const int count = parse_number(text, spec);
    if (count == 0) refuse(spec, "a bare number is a count; write `0,` for GPU 0, `1` for one GPU, `cpu` for none");
    return CountRequest{count};
  }
  ListRequest list;
  std::string_view rest = text;
  while (true) {
    const size_t comma = rest.find(',');
    append_item(rest.substr(0, comma), spec, list.items);
    if (list.items.size() > kMostDevices)
      refuse(spec, "it names more than " + std::to_string(kMostDevices) + " devices");
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (trim(rest).empty()) break;
  }
  if (!allow_duplicates) refuse_duplicates(list.items, spec);
  return list;
}

DeviceItem parse_primary(std::string_view spec) {
  std::string_view text = trim(spec);
  if (text.ends_with(',')) text = trim(text.substr(0, text.size() - 1));
  if (looks_like_uuid(text)) return {std::string(text), std::string(text)};
  if (all_digits(text) && text.size() <= 4) {
    int index = 0;
    std::from_chars(text.data(), text.data() + text.size(), index);
    return {index, std::to_string(index)};
  }
  throw ConfigError("--primary " + quoted(spec) + ": expected one device of --gpus: an index such as 1, or a UUID");
}

}  // namespace mgtrain
