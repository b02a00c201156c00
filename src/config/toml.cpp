#include "config/toml.h"

// The library's readers and destructors recurse over nested values: within the stack, whatever a text holds.
#define TOML_MAX_NESTED_VALUES 32

#include <toml++/toml.h>
#include <algorithm>
#include <utility>

namespace mgtrain {

namespace {

constexpr int kMostSyntaxErrors = 10;

// What no configuration comes near to, and what a text that means harm is held to: "a.a.a..." is a table a dot.
constexpr size_t kLargestDocument = size_t{1} << 20;
constexpr size_t kMostDotsInLine = 200;
constexpr size_t kDeepestTable = 16;
constexpr size_t kMostEntries = 2000;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string other_type(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::date:
      return "a date";
    case toml::node_type::time:
      return "a time of day";
    case toml::node_type::date_time:
      return "a date and time";
    default:
      return "a value of another type";
  }
}

void add_array(const toml::array& array, TomlEntry entry, std::vector<TomlEntry>& entries) {
  std::vector<std::string> items;
  for (const toml::node& item : array) {
    if (const auto text = item.value_exact<std::string>()) {
      items.push_back(*text);
    } else if (const auto integer = item.value_exact<int64_t>()) {
      items.push_back(std::to_string(*integer));
      entry.integers = true;
    } else {
      entry.other = item.is_table() ? "an array of tables" : "an array of something else than strings";
    }
  }
  if (entry.other.empty()) entry.value = std::move(items);
  entries.push_back(std::move(entry));
}

void add_table(const toml::table& table, const std::string& prefix, size_t depth, std::vector<TomlEntry>& entries) {
  for (const auto& [name, node] : table) {
    if (entries.size() == kMostEntries) return;
    const std::string part(name.str());
    TomlEntry entry;
    entry.key = prefix + (part.find('.') == std::string::npos ? part : '"' + part + '"');
    entry.line = static_cast<int>(name.source().begin.line);
    if (const auto* child = node.as_table()) {
      if (depth == kDeepestTable) {
        entry.other = "a section this deep in others";
        entries.push_back(std::move(entry));
        continue;
      }
      entry.table = true;
      entry.empty = child->empty();
      const std::string child_prefix = entry.key + ".";
      entries.push_back(std::move(entry));
      add_table(*child, child_prefix, depth + 1, entries);
      continue;
    }
    if (const auto* array = node.as_array()) {
      add_array(*array, std::move(entry), entries);
      continue;
    }
    if (const auto flag = node.value_exact<bool>()) {
      entry.value = *flag;
    } else if (const auto integer = node.value_exact<int64_t>()) {
      entry.value = *integer;
    } else if (const auto number = node.value_exact<double>()) {
      entry.value = *number;
    } else if (const auto text = node.value_exact<std::string>()) {
      entry.value = *text;
    } else {
      entry.other = other_type(node);
    }
    entries.push_back(std::move(entry));
  }
}

/// The lines of a document that can be blanked one by one.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {
    starts_.push_back(0);
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
    }
  }

  [[nodiscard]] const std::string& text() const { return text_; }

  [[nodiscard]] std::string_view line(int number) const {
    if (number < 1 || static_cast<size_t>(number) > starts_.size()) return {};
    const size_t begin = starts_[static_cast<size_t>(number) - 1];
    return trimmed(std::string_view(text_).substr(begin, text_.find('\n', begin) - begin));
  }

  /// "optim.lr" for the line "lr = 0.1" under [optim]; empty if the line is not of this form.
  [[nodiscard]] std::string key_at(int number) const {
    const std::string key = name_at(number);
    if (key.empty()) return key;
    for (int above = number - 1; above > 0; --above) {
      const std::string_view header = line(above);
      if (header.empty() || header.front() != '[') continue;
      const size_t close = header.find(']');
      if (close != std::string_view::npos) return std::string(trimmed(header.substr(1, close - 1))) + "." + key;
    }
    return key;
  }

  void blank(int number) {
    const size_t begin = starts_[static_cast<size_t>(number) - 1];
    for (size_t i = begin; i < text_.size() && text_[i] != '\n'; ++i) {
      if (text_[i] != '\r') text_[i] = ' ';
    }
  }

 private:
  [[nodiscard]] std::string name_at(int number) const {
    const std::string_view content = line(number);
    const std::string_view key = trimmed(content.substr(0, content.find('=')));
    const bool plain =
        content.find('=') != std::string_view::npos && std::all_of(key.begin(), key.end(), [](unsigned char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                 c == '.';
        });
    return plain ? std::string(key) : std::string();
  }

  std::string text_;
  std::vector<size_t> starts_;
};

/// Whether the text is more than a reader should be given.
std::optional<TomlProblem> excess_of(std::string_view text) {
  if (text.size() > kLargestDocument)
    return TomlProblem{1, "", std::to_string(text.size()) + " bytes are more than a configuration has", ""};
  int line = 1;
  size_t dots = 0;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      dots = 0;
    } else if (c == '.' && ++dots > kMostDotsInLine) {
      return TomlProblem{line, "", "more than " + std::to_string(kMostDotsInLine) + " dots in one line", ""};
    }
  }
  return std::nullopt;
}

bool is_redefinition(const toml::parse_error& error) {
  return error.description().find("redefin") != std::string_view::npos;
}

}  // namespace

TomlDocument read_toml(std::string_view text) {
  TomlDocument document;
  if (std::optional<TomlProblem> excess = excess_of(text)) {
    document.problems.push_back(std::move(*excess));
    return document;
  }
  Lines lines(text);
  std::vector<TomlProblem> duplicates;
  int last_line = -1;
  for (int errors = 0; errors < kMostSyntaxErrors; ++errors) {
    try {
      add_table(toml::parse(std::string_view(lines.text())), "", 1, document.entries);
      if (document.entries.size() == kMostEntries)
        document.problems.push_back({1, "", "more than " + std::to_string(kMostEntries) + " keys", ""});
      std::stable_sort(document.entries.begin(), document.entries.end(),
                       [](const TomlEntry& a, const TomlEntry& b) { return a.line < b.line; });
      break;
    } catch (const toml::parse_error& error) {
      const int line = static_cast<int>(error.source().begin.line);
      const bool duplicate = is_redefinition(error);
      const std::string key = lines.key_at(line);
      // The second of two errors in a row is most likely the first one's shadow (an array that is never closed).
      if (!duplicate && line <= last_line + 1 && last_line >= 0) break;
      if (duplicate) {
        duplicates.push_back({line, key.empty() ? std::string(lines.line(line)) : key, "is given twice", ""});
      } else {
        document.problems.push_back({line, "", "not valid TOML: " + std::string(error.description()), ""});
        last_line = line;
      }
      if (key.empty()) break;  // a section's header: the lines below it would land in the section above
      lines.blank(line);
    }
  }
  for (TomlProblem& duplicate : duplicates) {
    const auto first = std::find_if(document.entries.begin(), document.entries.end(),
                                    [&](const TomlEntry& entry) { return entry.key == duplicate.key; });
    if (first != document.entries.end()) duplicate.hint = "first in line " + std::to_string(first->line);
    document.problems.push_back(std::move(duplicate));
  }
  std::stable_sort(document.problems.begin(), document.problems.end(),
                   [](const TomlProblem& a, const TomlProblem& b) { return a.line < b.line; });
  return document;
}

}  // namespace mgtrain
