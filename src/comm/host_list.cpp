#include "comm/host_list.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include "base/error.h"

namespace mgtrain {
namespace {

constexpr size_t kMaxHosts = 1'000'000;  // of a list; the largest clusters have some ten thousand
constexpr size_t kMaxDigits = 18;        // of a number, which therefore does not overflow
constexpr size_t kMaxName = 255;         // of a name as it stands in the list; DNS allows as many

[[noreturn]] void refuse(std::string_view list, std::string_view item, const std::string& problem) {
  throw ConfigError("'" + std::string(list) + "' is no list of hosts such as gpu[01-03,7],login1: '" +
                    std::string(item) + "' " + problem);
}

std::optional<uint64_t> read_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || text.size() > kMaxDigits || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

std::string with_zeros(uint64_t number, size_t width) {
  std::string text = std::to_string(number);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

/// Splits at commas that stand outside brackets.
std::vector<std::string_view> split_items(std::string_view list) {
  std::vector<std::string_view> items;
  size_t start = 0;
  bool inside = false;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && !inside)) {
      items.push_back(list.substr(start, i - start));
      start = i + 1;
    } else if (list[i] == '[') {
      if (inside) refuse(list, list.substr(start), "has a bracket within brackets");
      inside = true;
    } else if (list[i] == ']') {
      if (!inside) refuse(list, list.substr(start), "closes a bracket that it did not open");
      inside = false;
    }
  }
  if (inside) refuse(list, list, "has an open bracket");
  return items;
}

/// The numbers of "01-03,7": 01, 02, 03, 7.
std::vector<std::string> expand_numbers(std::string_view list, std::string_view numbers) {
  std::vector<std::string> texts;
  for (const std::string_view item : split_items(numbers)) {
    const size_t dash = item.find('-');
    const std::string_view first = item.substr(0, dash);
    const std::string_view last = dash == item.npos ? first : item.substr(dash + 1);
    const auto low = read_number(first), high = read_number(last);
    if (!low || !high) refuse(list, item, "is neither a number nor a range of numbers");
    if (*low > *high) refuse(list, item, "runs backwards");
    if (*high - *low >= kMaxHosts - texts.size()) refuse(list, item, "names more than a million hosts");
    for (uint64_t number = *low; number <= *high; ++number) texts.push_back(with_zeros(number, first.size()));
  }
  return texts;
}

std::vector<std::string> expand_item(std::string_view list, std::string_view item) {
  std::vector<std::string> hosts = {""};
  size_t length = 0;  // outside brackets
  for (size_t start = 0; start < item.size();) {
    const size_t open = item.find('[', start), stop = open == item.npos ? item.size() : open;
    length += stop - start;
    if (length > kMaxName) refuse(list, item, "is longer than a name can be");
    for (std::string& host : hosts) host += item.substr(start, stop - start);
    if (open == item.npos) break;
    const size_t close = item.find(']', open);
    const std::vector<std::string> numbers = expand_numbers(list, item.substr(open + 1, close - open - 1));
    if (hosts.size() * numbers.size() > kMaxHosts) refuse(list, item, "names more than a million hosts");
    std::vector<std::string> longer;
    for (const std::string& host : hosts) {
      for (const std::string& number : numbers) longer.push_back(host + number);
    }
    hosts = std::move(longer);
    start = close + 1;
  }
  return hosts;
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view list) {
  std::vector<std::string> hosts;
  for (const std::string_view item : split_items(list)) {
    if (item.empty()) refuse(list, item, "is an empty name");
    for (std::string& host : expand_item(list, item)) hosts.push_back(std::move(host));
    if (hosts.size() > kMaxHosts) refuse(list, item, "names more than a million hosts");
  }
  return hosts;
}

std::vector<int> expand_counts(std::string_view list) {
  std::vector<int> counts;
  for (const std::string_view item : split_items(list)) {
    const size_t open = item.find("(x");
    const auto count = read_number(item.substr(0, open));
    std::optional<uint64_t> times = 1;
    if (open != item.npos) {
      const bool closed = item.back() == ')';
      times = closed ? read_number(item.substr(open + 2, item.size() - open - 3)) : std::nullopt;
    }
    if (!count || !times || *count > kMaxHosts || *times > kMaxHosts || counts.size() + *times > kMaxHosts) {
      throw ConfigError("'" + std::string(list) + "' is no list of counts such as 4(x2),3: '" + std::string(item) +
                        "' is neither a number nor NUMBER(xTIMES)");
    }
    counts.insert(counts.end(), *times, static_cast<int>(*count));
  }
  return counts;
}

}  // namespace mgtrain
