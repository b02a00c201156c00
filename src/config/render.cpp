#include "config/render.h"

#include <algorithm>
#include <functional>

#include "config/options.h"

namespace mgtrain {

namespace {

/// `comment`: after a value; none: a run's config.toml, without what is of one process of the run.
std::string render(const RunConfig& config, const std::function<std::string(const Option&)>& comment) {
  const RunConfig defaults;
  std::string text, section;
  for (const Option& option : options()) {
    const OptionValue value = option.get(config);
    if (option.hidden && value == option.get(defaults)) continue;
    if (option.of_process && !comment) continue;
    if (section_of(option.key) != section) {
      section = section_of(option.key);
      text += (text.empty() ? "[" : "\n[") + section + "]\n";
    }
    text += name_in_section(option.key) + " = " + toml_text(value) + (comment ? comment(option) : "") + "\n";
  }
  return text;
}

/// Everything about a value but its help: "number, 0 or more; default 0.0".
std::string facts(const Option& option) {
  std::string text = type_text(option);
  if (const std::string range = range_text(option); !range.empty()) text += ", " + range;
  if (!option.unit.empty()) text += " [" + option.unit + "]";
  return text;
}

std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

constexpr const char* kPeriods =
    "Periods: 100 or 100s (steps), 1e (epochs), 10m (minutes), 15% (of the run), 0 (never).\n"
    "Precedence: flag > --set KEY=VALUE > environment MGTRAIN_SECTION__KEY > later --config file > earlier > default.\n"
    "Relative paths in a file start at its folder.\n";

std::string render_page() {
  std::string text = "Every config key of mgtrain, by section of the TOML file.\n\n", section;
  text += kPeriods;
  const RunConfig defaults;
  for (const Option& option : options()) {
    if (option.hidden) continue;
    if (section_of(option.key) != section) {
      section = section_of(option.key);
      text += "\n[" + section + "]\n";
    }
    text += "  " + name_in_section(option.key) + " = " + toml_text(option.get(defaults));
    if (!option.flag.empty()) text += "    " + option.flag;
    text += "\n      " + option.help + "\n      " + facts(option) + "\n";
  }
  return text;
}

std::string render_markdown() {
  std::string text =
      "# Config keys\n\n"
      "Written by `mgtrain config --markdown`; a test compares. Values are given in a TOML file (`--config FILE`), "
      "with\n"
      "`--set KEY=VALUE`, in the environment, or with a flag where there is one.\n\n";
  std::string periods = kPeriods;
  for (size_t at = 0; (at = periods.find('\n', at)) != std::string::npos && at + 1 < periods.size(); at += 2) {
    periods.replace(at, 1, "\n\n");
  }
  text += periods;
  std::string section;
  const RunConfig defaults;
  for (const Option& option : options()) {
    if (option.hidden) continue;
    if (section_of(option.key) != section) {
      section = section_of(option.key);
      text += "\n## " + section + "\n\n| key | flag | default | values | meaning |\n|---|---|---|---|---|\n";
    }
    text += "| `" + option.key + "` | " + (option.flag.empty() ? "" : "`" + option.flag + "`") + " | `" +
            markdown_cell(toml_text(option.get(defaults))) + "` | " + markdown_cell(facts(option)) + " | " +
            markdown_cell(option.help) + " |\n";
  }
  return text;
}

}  // namespace

std::string render_toml(const CheckedConfig& config, bool with_origins) {
  if (!with_origins) return render_toml(config.values());
  return render(config.values(), [&](const Option& option) {
    std::string origin = config.origin(option.key);
    // A comment ends with its line, and a file's name may hold anything.
    std::replace_if(
        origin.begin(), origin.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    return "  # " + origin;
  });
}

std::string render_toml(const RunConfig& config) { return render(config, nullptr); }

std::string render_reference(bool markdown) { return markdown ? render_markdown() : render_page(); }

}  // namespace mgtrain
