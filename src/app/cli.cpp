// parse_command_line (commands.h). CLI11 collects the raw texts; what they mean is decided by the options table, so a
// value that starts with a minus or holds a comma reaches it as written.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "app/command_table.h"
#include "base/error.h"
#include "base/version.h"
#include "config/nearest_name.h"
#include "config/option_values.h"
#include "config/options.h"

namespace mgtrain {

namespace {

bool is_long(const std::string& token) { return token.size() > 2 && token.starts_with("--"); }

std::string name_of(const std::string& token) { return token.substr(0, token.find('=')); }

enum class Arity { kUnknown, kTruth, kValue };

/// Whether any command knows the flag, and whether a value follows it.
Arity arity(const std::string& name) {
  for (const OwnFlag& flag : own_flags()) {
    if (flag.name == name) return flag.value.empty() ? Arity::kTruth : Arity::kValue;
  }
  for (const Option& option : options()) {
    if (option.flag == name) return option.type == Option::Type::kBool ? Arity::kTruth : Arity::kValue;
  }
  return Arity::kUnknown;
}

class Parser {
 public:
  Parser(std::vector<std::string> tokens, char** environment) : tokens_(std::move(tokens)) {
    line_.config.environment = config_environment(environment);
  }

  CommandLine parse() {
    find_command();
    if (asks_for("--help", "-h")) return text_line(help_page(command_named_ ? spec_ : nullptr));
    if (asks_for("--version", "-V")) return text_line("mgtrain " + std::string(kVersion) + "\n");
    line_.command = spec_->command;
    separate_values();
    collect();
    if (!problems_.empty()) {
      // What is wrong with the values is told in the same pass.
      for (ConfigProblem& problem : resolve(line_.config).problems) problems_.push_back(std::move(problem));
      throw ConfigError(describe(problems_));
    }
    return std::move(line_);
  }

 private:
  void problem(const std::string& where, std::string text, std::string hint) {
    problems_.push_back({where, "", std::move(text), std::move(hint)});
  }

  CommandLine text_line(std::string text) {
    line_.command = CommandLine::Command::kText;
    line_.text = std::move(text);
    return std::move(line_);
  }

  /// The index of the first token from `begin` that is neither a flag nor a flag's value.
  [[nodiscard]] size_t next_word(size_t begin) const {
    size_t i = begin;
    for (; i < tokens_.size() && tokens_[i] != "--"; ++i) {
      if (!tokens_[i].starts_with('-') || tokens_[i] == "-") return i;
      const Arity known = arity(name_of(tokens_[i]));
      const bool joined = tokens_[i].find('=') != std::string::npos;
      // An unknown flag's next token is most likely its value, unless it names a command.
      if (!joined && (known == Arity::kValue || (known == Arity::kUnknown && !is_command_word(i + 1)))) {
        if (i + 1 < tokens_.size() && !tokens_[i + 1].starts_with('-')) ++i;
      }
    }
    return tokens_.size();
  }

  [[nodiscard]] bool is_command_word(size_t index) const {
    if (index >= tokens_.size()) return false;
    const auto all = commands();
    return std::any_of(all.begin(), all.end(),
                       [&](const CommandSpec& spec) { return spec.words.front() == tokens_[index]; });
  }

  /// Finds the command and takes its words out of the tokens; none: train.
  void find_command() {
    spec_ = &commands().front();
    const size_t first = next_word(0);
    if (first == tokens_.size()) return;
    if (!is_command_word(first)) {
      unknown_word_ = true;
      std::vector<std::string> words;
      for (const CommandSpec& spec : commands()) words.push_back(spec.words.front());
      const std::string nearest = nearest_name(tokens_[first], words);
      std::string hint = nearest.empty() ? "`mgtrain --help` lists the commands" : "did you mean " + nearest + "?";
      if (tokens_[first].ends_with(".toml")) hint = "a config file is given with --config " + tokens_[first];
      if (first > 0) hint = word_hint(tokens_[first], tokens_[first - 1], hint);
      problem(quoted_text(tokens_[first]), "unknown command", hint);
      tokens_.erase(tokens_.begin() + static_cast<std::ptrdiff_t>(first));
      return;
    }
    const std::string word = tokens_[first];
    tokens_.erase(tokens_.begin() + static_cast<std::ptrdiff_t>(first));
    std::vector<const CommandSpec*> candidates;
    for (const CommandSpec& spec : commands()) {
      if (spec.words.front() == word) candidates.push_back(&spec);
    }
    spec_ = candidates.front();
    command_named_ = true;
    if (spec_->words.size() > 1) find_second_word(word, candidates);
  }

  void find_second_word(const std::string& word, const std::vector<const CommandSpec*>& candidates) {
    std::string choices;
    for (const CommandSpec* spec : candidates) {
      choices += (choices.empty() ? "" : " or ") + spec->words[1];
    }
    const size_t second = next_word(0);
    if (second == tokens_.size()) {
      unknown_word_ = true;
      if (!asks_for("--help", "-h"))
        problem("mgtrain " + word, "says not what to do", "write " + choices + " after it");
      return;
    }
    for (const CommandSpec* spec : candidates) {
      if (spec->words[1] == tokens_[second]) {
        spec_ = spec;
        tokens_.erase(tokens_.begin() + static_cast<std::ptrdiff_t>(second));
        return;
      }
    }
    unknown_word_ = true;
    problem("mgtrain " + word, "unknown command " + quoted_text(tokens_[second]), "write " + choices);
    tokens_.erase(tokens_.begin() + static_cast<std::ptrdiff_t>(second));
  }

  [[nodiscard]] bool asks_for(std::string_view name, std::string_view short_name) const {
    for (size_t i = 0; i < tokens_.size() && tokens_[i] != "--"; ++i) {
      if (tokens_[i] == name || tokens_[i] == short_name) return true;
    }
    return false;
  }

  /// --flag=value becomes two tokens, so that CLI11 takes any value whole, an empty one too; a flag at the end or
  /// before another flag lacks its value.
  void separate_values() {
    std::vector<std::string> separated;
    size_t i = 0;
    for (; i < tokens_.size() && tokens_[i] != "--"; ++i) {
      const std::string& token = tokens_[i];
      const std::string name = name_of(token);
      const bool joined = is_long(token) && name.size() < token.size();
      const Arity known = is_long(token) ? arity(name) : Arity::kUnknown;
      if (joined && known == Arity::kValue) {
        separated.push_back(name);
        separated.push_back(token.substr(name.size() + 1));
      } else if (joined && known == Arity::kTruth && name.size() + 1 == token.size()) {
        problem(name, "has nothing after =", "write " + name + ", " + name + "=true or " + name + "=false");
      } else if (known == Arity::kValue) {
        if (i + 1 == tokens_.size() || tokens_[i + 1].starts_with("--")) {
          problem(name, "needs a value", "`" + spoken_name(*spec_) + " --help` shows which");
        } else {
          separated.push_back(name);
          separated.push_back(tokens_[++i]);
        }
      } else {
        separated.push_back(token);
      }
    }
    separated.insert(separated.end(), tokens_.begin() + static_cast<std::ptrdiff_t>(i), tokens_.end());
    tokens_ = std::move(separated);
  }

  void collect() {
    CLI::App app("", "mgtrain");
    app.set_help_flag();
    app.allow_extras();
    std::map<std::string, CLI::Option*> bound;
    const auto bind = [&](const std::string& name, bool truth) {
      bound[name] = truth ? app.add_flag(name)
                          : app.add_option(name)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    };
    for (const std::string& name : spec_->own_flags) bind(name, own_flag(name).value.empty());
    for (const Option& option : options()) {
      if (takes_flag(*spec_, option)) bind(option.flag, option.type == Option::Type::kBool);
    }
    std::vector<std::string> reversed(tokens_.rbegin(), tokens_.rend());
    try {
      app.parse(std::move(reversed));
    } catch (const CLI::ParseError& error) {
      problem("command line", error.what(), "");
    }
    for (const std::string& name : spec_->own_flags) take_own_flag(name, bound.at(name)->results());
    for (const Option& option : options()) {
      if (!takes_flag(*spec_, option)) continue;
      for (const std::string& text : bound.at(option.flag)->results()) {
        line_.config.flags.emplace_back(option.key, text);
      }
    }
    take_rest(app.remaining());
  }

  void take_own_flag(const std::string& name, const std::vector<std::string>& texts) {
    if (texts.empty()) return;
    const OwnFlag& flag = own_flag(name);
    const std::string& text = texts.back();
    if (flag.value.empty()) {
      take_truth(name, text);
    } else if (name == "--config") {
      line_.config.files.assign(texts.begin(), texts.end());
    } else if (name == "--set") {
      line_.config.sets = texts;
      refuse_unused_keys();
    } else if (text.empty()) {
      problem(name, "is empty", "write " + name + " " + flag.value);
    } else if (name == "--output") {
      line_.output = text;
    } else if (name == "--resume") {
      line_.resume = text;
    } else if (name == "--checkpoint") {
      line_.checkpoint = text;
    } else if (name == "--resume-changes") {
      line_.resume_changes_allow = text == "allow";
      if (text != "allow") problem(name, quoted_text(text) + " is not allow", "the one value is allow");
    } else if (name == "--topk") {
      const Read<int64_t> read = read_integer(text);
      const auto* number = std::get_if<int64_t>(&read);
      if (number != nullptr && *number >= 1 && *number <= 1000000) {
        line_.topk = static_cast<int>(*number);
      } else {
        problem(name, quoted_text(text) + " is not a number of classes", "1 or more");
      }
    }
  }

  /// A key given on the command line that the command would not look at.
  void refuse_unused_keys() {
    for (const std::string& assignment : line_.config.sets) {
      const std::string key = assignment.substr(0, assignment.find('='));
      const Option* option = find_option(key);
      if (option == nullptr || spec_->takes(*option)) continue;
      problem("--set " + key, "is not used by `" + spoken_name(*spec_) + "`", "take it out");
    }
  }

  void take_truth(const std::string& name, const std::string& text) {
    static const std::map<std::string, bool CommandLine::*> fields = {
        {"--overwrite", &CommandLine::overwrite}, {"--print-config", &CommandLine::print_config},
        {"--dry-run", &CommandLine::dry_run},     {"--json", &CommandLine::json},
        {"--quiet", &CommandLine::quiet},         {"--markdown", &CommandLine::markdown},
    };
    const Read<bool> read = read_bool(text);
    if (const auto* wrong = std::get_if<ValueProblem>(&read)) {
      problem(name, wrong->text, "write " + name + " or " + name + "=false");
    } else {
      line_.*fields.at(name) = std::get<bool>(read);
    }
  }

  /// Positionals, and flags that the command does not know.
  void take_rest(const std::vector<std::string>& rest) {
    bool only_words = false, unknown_flag = false;
    std::string before;
    for (const std::string& token : rest) {
      if (!only_words && token == "--") {
        only_words = true;
      } else if (!only_words && token.size() > 1 && token.front() == '-') {
        unknown_flag = true;
        refuse_flag(name_of(token));
      } else if (line_.items.size() < spec_->max_items) {
        line_.items.push_back(token);
      } else if (!(before.size() > 1 && before.front() == '-')) {  // else the value of the unknown flag before it
        problem(quoted_text(token), "unexpected argument",
                word_hint(token, "", "`" + spoken_name(*spec_) + " --help` shows what it takes"));
      }
      before = token;
    }
    const bool data =
        spec_->command == CommandLine::Command::kDataInfo || spec_->command == CommandLine::Command::kDataCheck;
    const auto& flags = line_.config.flags;
    if (data && !line_.items.empty() &&
        std::any_of(flags.begin(), flags.end(), [](const auto& flag) { return flag.first == "data.path"; })) {
      problem("--data", "names a data set, and so does " + quoted_text(line_.items.front()), "give one of them");
    }
    if (line_.items.size() < spec_->min_items && !unknown_flag && !unknown_word_) {
      problem(spoken_name(*spec_), "needs " + spec_->positionals, "such as mgtrain " + spec_->examples.front());
    }
  }

  [[nodiscard]] static std::string word_hint(const std::string& word, const std::string& before,
                                             std::string otherwise) {
    if (word == "true" || word == "false") {
      return "write a truth value with =, as in " + (is_long(before) ? before : "--drop-last") + "=" + word;
    }
    return otherwise;
  }

  void refuse_flag(const std::string& name) {
    if (arity(name) != Arity::kUnknown) {
      problem(name, "is not a flag of `" + spoken_name(*spec_) + "`",
              "`" + spoken_name(*spec_) + " --help` lists its flags");
      return;
    }
    std::vector<std::string> flags = spec_->own_flags, keys;
    flags.insert(flags.end(), {"--help", "--version"});
    for (const Option& option : options()) {
      if (takes_flag(*spec_, option)) flags.push_back(option.flag);
      if (option.flag.empty() && !option.hidden && spec_->takes(option)) keys.push_back(option.key);
    }
    std::string key_name = name.substr(std::min(name.find_first_not_of('-'), name.size()));
    std::replace(key_name.begin(), key_name.end(), '-', '_');
    for (const std::string& key : keys) {
      if (name_in_section(key) == key_name) {
        problem(name, "unknown flag", "this config key has none: --set " + key + "=VALUE");
        return;
      }
    }
    const std::string nearest = nearest_name(name, flags);
    problem(name, "unknown flag",
            nearest.empty() ? "`" + spoken_name(*spec_) + " --help` lists the flags" : "did you mean " + nearest + "?");
  }

  std::vector<std::string> tokens_;
  CommandLine line_;
  std::vector<ConfigProblem> problems_;
  const CommandSpec* spec_ = nullptr;
  bool command_named_ = false, unknown_word_ = false;
};

}  // namespace

CommandLine parse_command_line(int argc, char** argv, char** environment) {
  std::vector<std::string> arguments(argv, argv + argc);
  std::vector<std::string> tokens(arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  CommandLine line = Parser(std::move(tokens), environment).parse();
  line.arguments = std::move(arguments);
  return line;
}

}  // namespace mgtrain
