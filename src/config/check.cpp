#include "config/check.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "config/nearest_name.h"
#include "config/option_values.h"
#include "config/options.h"
#include "config/toml.h"

namespace mgtrain {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kEnvironmentPrefix = "MGTRAIN_";
constexpr std::array<std::string_view, 1> kNotConfig = {"MGTRAIN_DATA"};

const std::vector<std::string>& all_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> names;
    for (const Option& option : options()) {
      if (!option.hidden) names.push_back(option.key);
    }
    return names;
  }();
  return keys;
}

bool is_section(const std::string& name) {
  return std::any_of(options().begin(), options().end(),
                     [&](const Option& option) { return section_of(option.key) == name; });
}

std::string did_you_mean(const std::string& nearest) {
  return nearest.empty() ? "`mgtrain config` lists every key" : "did you mean " + nearest + "?";
}

/// MGTRAIN_OPTIM__LR for optim.lr.
std::string environment_name(const std::string& key) {
  std::string name(kEnvironmentPrefix);
  for (const char c : section_of(key) + "__" + name_in_section(key)) {
    name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xc2 && lead < 0xe0 ? 2
                          : (lead & 0xf0) == 0xe0       ? 3
                          : lead >= 0xf0 && lead < 0xf5 ? 4
                                                        : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (size_t j = 1; j < length; ++j) {
      if ((static_cast<unsigned char>(text[i + j]) & 0xc0) != 0x80) return false;
    }
    i += length;
  }
  return true;
}

/// The path written in a file of `folder` (empty: the working directory), so that it means the same from anywhere.
std::string absolute_path(const std::string& text, const fs::path& folder) {
  if (is_not_a_path(text)) return text;
  std::error_code error;
  const fs::path path = fs::absolute(folder / text, error);
  if (error) return text;
  const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
  if (climbs) {  // folder/.. of a symbolic link is its target's parent: only the file system knows
    const fs::path canonical = fs::weakly_canonical(path, error);
    if (!error) return canonical.string();
  }
  return path.lexically_normal().string();
}

/// Collects values and problems from source after source, the weakest first.
class Resolver {
 public:
  Resolution take() { return std::move(result_); }

  Resolver() {
    for (const Option& option : options()) result_.origins[option.key] = "default";
  }

  void read_file(const fs::path& file) {
    std::error_code error;
    const fs::file_status status = fs::status(file, error);
    std::ifstream stream(file, std::ios::binary);
    if (!stream || fs::is_directory(status)) {
      const std::string reason = fs::is_directory(status) ? "it is a folder" : std::strerror(errno);
      problem(file.string(), "", "cannot be read: " + reason, "--config takes a TOML file");
      return;
    }
    const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    // A pipe (--config <(...)) lies in no folder of the user's.
    read_text(text, file.string(), fs::is_regular_file(status) ? file.parent_path() : fs::path());
  }

  /// `folder`: what relative paths are relative to.
  void read_text(const std::string& text, const std::string& name, const fs::path& folder) {
    const TomlDocument document = read_toml(text);
    const auto where = [&](int line) { return name + ":" + std::to_string(line); };
    for (const TomlProblem& found : document.problems) {
      problem(where(found.line), found.key, found.problem, found.hint);
    }
    for (const TomlEntry& entry : document.entries) take_entry(entry, where(entry.line), folder);
  }

  void read_environment(const std::string& name, const std::string& text) {
    const std::string rest = name.substr(std::min(kEnvironmentPrefix.size(), name.size()));
    const size_t separator = rest.find("__");
    const std::string key = separator == std::string::npos
                                ? lower_case(rest)
                                : lower_case(rest.substr(0, separator)) + "." + lower_case(rest.substr(separator + 2));
    const Option* option = find_option(key);
    if (option == nullptr || environment_name(key) != name) {
      std::string nearest = nearest_name(key, all_keys());
      if (!nearest.empty()) nearest = environment_name(nearest);
      result_.warnings.push_back("environment variable " + name + " names no config key and is ignored (" +
                                 did_you_mean(nearest) + ")");
      return;
    }
    take_text(*option, text, name, "env " + name);
  }

  void read_set(const std::string& assignment) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      problem("--set " + assignment, "", "is not of the form key=value", "such as --set optim.lr=0.1");
      return;
    }
    const std::string key = assignment.substr(0, equals);
    const std::string text = assignment.substr(equals + 1);
    const Option* option = find_option(key);
    if (option == nullptr) {
      unknown_key("--set " + key, key);
    } else if (option->type == Option::Type::kStrings && text.starts_with('[')) {
      take_toml_list(*option, text);
    } else {
      take_text(*option, text, "--set " + key, "--set");
    }
  }

  /// A list's flags add up; of any other flag the last one counts.
  void read_flags(const std::vector<std::pair<std::string, std::string>>& flags) {
    std::map<std::string, std::string> lists;
    for (const auto& [key, text] : flags) {
      const Option* option = find_option(key);
      if (option == nullptr) {
        unknown_key("command line", key);
      } else if (option->type != Option::Type::kStrings) {
        take_text(*option, text, option->flag, option->flag);
      } else {
        const auto [list, first] = lists.emplace(key, text);
        if (!first) list->second += "," + text;
      }
    }
    for (const auto& [key, text] : lists) {
      const Option& option = *find_option(key);
      take_text(option, text, option.flag, option.flag);
    }
  }

  void cross_check() {
    for (ConfigProblem found : mgtrain::cross_check(result_.values)) {
      // Where one of the values involved was refused, the default stands in its place and proves nothing.
      const bool shadow = std::any_of(refused_.begin(), refused_.end(), [&](const std::string& key) {
        return found.key == key || found.problem.find(key) != std::string::npos;
      });
      if (shadow) continue;
      found.where = result_.origins.at(found.key);
      result_.problems.push_back(std::move(found));
    }
  }

 private:
  void problem(std::string where, std::string key, std::string text, std::string hint = "") {
    result_.problems.push_back({std::move(where), std::move(key), std::move(text), std::move(hint)});
  }

  void unknown_key(const std::string& where, const std::string& key) {
    problem(where, key, "unknown key", did_you_mean(nearest_name(key, all_keys())));
  }

  void take_entry(const TomlEntry& entry, const std::string& where, const fs::path& folder) {
    const Option* option = find_option(entry.key);
    if (option == nullptr && entry.table) {
      if (is_section(entry.key) || !entry.empty) return;  // entries of an unknown section are reported one by one
      std::vector<std::string> sections;
      for (const Option& known : options()) sections.push_back(section_of(known.key));
      const std::string nearest = nearest_name(entry.key, sections);
      problem(where, entry.key, "unknown section", did_you_mean(nearest.empty() ? "" : "[" + nearest + "]"));
      return;
    }
    if (option == nullptr) {
      if (is_section(entry.key)) {
        problem(where, entry.key, "is a section, not a value", "write [" + entry.key + "] and its keys below");
      } else {
        unknown_key(where, entry.key);
      }
      return;
    }
    const std::string example = "such as " + name_in_section(option->key) + " = " + toml_text(option->get(RunConfig()));
    if (!entry.value || (entry.integers && !option->integer_text)) {
      const std::string other = entry.table ? "a section" : entry.integers ? "an array of integers" : entry.other;
      refuse(*option, where, "does not take " + other, example);
      return;
    }
    if (auto wrong = toml_type_problem(*option, *entry.value)) {
      refuse(*option, where, *wrong, example);
      return;
    }
    OptionValue value = *entry.value;
    if (option->path) value = absolute_path(std::get<std::string>(value), folder);
    store(*option, value, where, where);
  }

  void take_text(const Option& option, const std::string& text, const std::string& where, const std::string& origin) {
    if (!is_utf8(text)) {
      refuse(option, where, quoted_text(text) + " is not valid UTF-8", "");
      return;
    }
    store(option, option.path ? absolute_path(text, {}) : text, where, origin);
  }

  void take_toml_list(const Option& option, const std::string& text) {
    const std::string where = "--set " + option.key;
    const TomlDocument document = read_toml("list = " + text);
    const bool list = document.problems.empty() && document.entries.size() == 1 && document.entries[0].value &&
                      std::holds_alternative<std::vector<std::string>>(*document.entries[0].value);
    if (list) {
      store(option, *document.entries[0].value, where, "--set");
    } else {
      refuse(option, where, quoted_text(text) + " is not a list", "such as [\"a\", \"b\"] or a,b");
    }
  }

  void store(const Option& option, const OptionValue& value, const std::string& where, const std::string& origin) {
    if (auto wrong = option.set(result_.values, value)) {
      refuse(option, where, *wrong, "");
      return;
    }
    result_.origins[option.key] = origin;
  }

  void refuse(const Option& option, const std::string& where, const std::string& text, const std::string& hint) {
    problem(where, option.key, text, hint);
    refused_.insert(option.key);
  }

  Resolution result_;
  std::set<std::string> refused_;
};

}  // namespace

Resolution resolve(const ConfigSources& sources) {
  Resolver resolver;
  if (sources.base) resolver.read_text(sources.base->toml, sources.base->name, {});
  for (const fs::path& file : sources.files) resolver.read_file(file);
  for (const auto& [name, text] : sources.environment) resolver.read_environment(name, text);
  for (const std::string& assignment : sources.sets) resolver.read_set(assignment);
  resolver.read_flags(sources.flags);
  resolver.cross_check();
  return resolver.take();
}

std::string describe(const std::vector<ConfigProblem>& problems) {
  std::string text;
  for (const ConfigProblem& problem : problems) {
    if (problems.size() > 1) text += text.empty() ? std::to_string(problems.size()) + " problems:\n  " : "\n  ";
    text += problem.where;
    // "--set optim.lr" names the key already.
    if (!problem.key.empty() && !problem.where.ends_with(problem.key)) text += ": " + problem.key;
    text += ": " + problem.problem;
    if (!problem.hint.empty()) text += " (" + problem.hint + ")";
  }
  return text;
}

CheckedConfig check(const ConfigSources& sources, std::vector<std::string>* warnings) {
  Resolution resolution = resolve(sources);
  if (warnings != nullptr) {
    warnings->insert(warnings->end(), resolution.warnings.begin(), resolution.warnings.end());
  }
  if (!resolution.problems.empty()) throw ConfigError(describe(resolution.problems));
  CheckedConfig config;
  config.values_ = std::move(resolution.values);
  config.origins_ = std::move(resolution.origins);
  return config;
}

std::vector<ConfigProblem> cross_check(const RunConfig& config) {
  std::vector<ConfigProblem> problems;
  const auto problem = [&](std::string key, std::string text, std::string hint) {
    problems.push_back({"", std::move(key), std::move(text), std::move(hint)});
  };
  const auto& [data, model, optim, train, devices, parallel, checkpoint, output] = config;
  if (train.micro_batch > 0 && train.accumulate > 1) {
    problem("train.micro_batch", "cannot stand together with train.accumulate = " + std::to_string(train.accumulate),
            "each decides how a batch is cut; give one");
  }
  if (train.accumulate > train.batch) {
    problem("train.accumulate",
            std::to_string(train.accumulate) + " pieces of train.batch = " + std::to_string(train.batch) +
                " images: some would be empty",
            "accumulate at most batch pieces");
  }
  if (optim.schedule == "multistep" && optim.milestones.empty()) {
    problem("optim.milestones", "is empty with optim.schedule = multistep", "such as [\"80e\", \"120e\"]");
  }
  if (model.init.empty() && model.reset_head) {
    problem("model.reset_head", "means something only with weights to start from (model.init)", "give --init PATH");
  }
  if (model.init.empty() && model.allow_missing) {
    problem("model.allow_missing", "means something only with weights to start from (model.init)", "give --init PATH");
  }
  if (data.val == "none" && !train.asserts.empty()) {
    problem("train.assert", "cannot be checked with data.val = none", "give data to evaluate on with --val");
  }
  if (data.val == "none" && train.early_stop > 0) {
    problem("train.early_stop", "cannot be decided with data.val = none", "give data to evaluate on with --val");
  }
  const bool ranks = parallel.strategy == "ddp";
  if (!ranks && parallel.grad_dtype != "auto") {
    problem("parallel.grad_dtype", "has no effect with parallel.strategy = " + parallel.strategy,
            "only ranks send gradients to each other: give --strategy ddp");
  }
  if (parallel.strategy == "dp" && parallel.sync_bn) {
    problem("parallel.sync_bn", "cannot stand together with parallel.strategy = dp",
            "torch::nn::parallel's replicas share no statistics; use ddp: --strategy ddp");
  }
  if (ranks && devices.allow_duplicates) {
    problem("devices.allow_duplicates", "cannot stand together with parallel.strategy = ddp",
            "two ranks on one GPU wait for each other for ever");
  }
  if (train.eval_every.never() && train.early_stop > 0) {
    problem("train.early_stop", "cannot be decided with train.eval_every = 0", "such as --eval-every 1e");
  }
  return problems;
}

std::vector<std::pair<std::string, std::string>> config_environment(char** environment) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (!text.starts_with(kEnvironmentPrefix) || equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (std::find(kNotConfig.begin(), kNotConfig.end(), name) != kNotConfig.end()) continue;
    variables.emplace_back(name, text.substr(equals + 1));
  }
  return variables;
}

}  // namespace mgtrain
