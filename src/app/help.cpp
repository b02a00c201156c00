// `mgtrain --help` and the help of each command, from the tables of commands and options.
#include <algorithm>
#include <map>
#include <string_view>

#include "app/command_table.h"
#include "config/option_values.h"

namespace mgtrain {

namespace {

constexpr size_t kTextColumn = 28, kPageWidth = 110;
constexpr char kNoBreak = '\x01';  // a blank at which no line may end

/// "  --flag VALUE      text", the text wrapped in its own column.
std::string entry(const std::string& head, const std::string& text) {
  std::string page = "  " + head;
  if (page.size() + 2 > kTextColumn) page += "\n";
  size_t column = page.back() == '\n' ? 0 : page.size();
  page += std::string(kTextColumn - column, ' ');
  column = kTextColumn;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (column > kTextColumn && column + 1 + (end - begin) > kPageWidth) {
      page += "\n" + std::string(kTextColumn, ' ');
      column = kTextColumn;
    } else if (column > kTextColumn) {
      page += ' ';
      ++column;
    }
    page.append(text, begin, end - begin);
    column += end - begin;
    begin = end + 1;
  }
  std::replace(page.begin(), page.end(), kNoBreak, ' ');
  return page + "\n";
}

std::string value_name(const Option& option) {
  switch (option.type) {
    case Option::Type::kBool:
      return "";
    case Option::Type::kInteger:
      return " N";
    case Option::Type::kNumber:
    case Option::Type::kOptionalNumber:
      return " X";
    case Option::Type::kStrings:
      return " LIST";
    case Option::Type::kEvery:
      return " PERIOD";
    case Option::Type::kDuration:
      return " TIME";
    case Option::Type::kString:
      break;
  }
  if (option.path) return " PATH";
  if (option.key == "devices.gpus") return " SPEC";
  if (option.key == "devices.primary") return " ITEM";
  return option.choices.empty() ? " TEXT" : " NAME";
}

/// "[128 images]", or nothing where the default is plain (off, empty).
std::string default_text(const Option& option) {
  const OptionValue value = option.get(RunConfig());
  std::string text;
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    text = std::to_string(*integer);
    std::string unit = option.unit;
    if (*integer == 1 && unit.ends_with('s')) unit.pop_back();
    if (!unit.empty()) text += kNoBreak + unit;
  } else if (const auto* number = std::get_if<double>(&value)) {
    text = number_text(*number);
  } else if (const auto* word = std::get_if<std::string>(&value)) {
    text = *word;
  }
  return text.empty() ? text : " [" + text + "]";
}

std::string option_entry(const Option& option) {
  std::string text = option.help;
  for (size_t i = 0; i < option.choices.size(); ++i) text += (i == 0 ? " {" : ", ") + option.choices[i];
  if (!option.choices.empty()) text += "}";
  return entry(option.flag + value_name(option), text + default_text(option));
}

std::string option_sections(const CommandSpec& spec) {
  static const std::map<std::string, std::string> titles = {
      {"data", "Data"},       {"model", "Model"},       {"optim", "Optimizer"},        {"train", "Training"},
      {"devices", "Devices"}, {"parallel", "Parallel"}, {"checkpoint", "Checkpoints"}, {"output", "Output"},
  };
  std::string page, section;
  for (const Option& option : options()) {
    if (!takes_flag(spec, option)) continue;
    if (section_of(option.key) != section) {
      section = section_of(option.key);
      page += "\n" + titles.at(section) + "\n";
    }
    page += option_entry(option);
  }
  return page;
}

std::string own_flag_section(const CommandSpec& spec) {
  std::string page = "\nGeneral\n";
  for (const OwnFlag& flag : own_flags()) {
    if (std::find(spec.own_flags.begin(), spec.own_flags.end(), flag.name) == spec.own_flags.end()) continue;
    page += entry(flag.name + (flag.value.empty() ? "" : " " + flag.value), flag.help);
  }
  return page + entry("--help", "Print this page") + entry("--version", "Print the version");
}

std::string examples(const CommandSpec& spec) {
  std::string page = "\nExamples\n";
  for (const std::string& example : spec.examples) page += "  mgtrain " + example + "\n";
  return page;
}

constexpr const char* kNotes =
    "\nPERIOD is 100 or 100s (steps), 1e (epochs), 10m (minutes), 15% (of the run) or 0 (never); TIME is 90s, 30m or "
    "2h.\n"
    "Defaults stand in [brackets]. Precedence: flag > --set > environment MGTRAIN_SECTION__KEY > --config > default.\n"
    "`mgtrain config` lists every config key, with those that have no flag. Exit codes: docs/exit-codes.md.\n";

}  // namespace

std::string help_page(const CommandSpec* spec) {
  const CommandSpec& train = commands().front();
  if (spec != nullptr && spec != &train) {
    std::string usage = "Usage: " + spoken_name(*spec);
    if (!spec->positionals.empty()) usage += " " + spec->positionals;
    return usage + " [flags]\n\n" + spec->summary + "\n" + examples(*spec) + own_flag_section(*spec) +
           option_sections(*spec);
  }
  std::string page =
      "mgtrain trains ResNet image classifiers on one or several GPUs, or on CPU replicas.\n\n"
      "Usage: mgtrain [command] [flags]\n\nCommands (`mgtrain COMMAND --help` shows its flags)\n";
  for (const CommandSpec& command : commands()) {
    std::string head = spoken_name(command).substr(std::string_view("mgtrain ").size());
    if (!command.positionals.empty()) head += " " + command.positionals;
    page += entry(head, command.summary);
  }
  return page + examples(train) + own_flag_section(train) + option_sections(train) + kNotes;
}

}  // namespace mgtrain
