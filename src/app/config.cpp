// `mgtrain config`: the reference of every config key; and --print-config of every command that has it.
#include <nlohmann/json.hpp>
#include <ostream>

#include "app/commands.h"
#include "config/check.h"
#include "config/options.h"
#include "config/render.h"

namespace mgtrain {

namespace {

nlohmann::ordered_json json_value(const OptionValue& value) {
  return std::visit([](const auto& plain) { return nlohmann::ordered_json(plain); }, value);
}

nlohmann::ordered_json reference_json() {
  nlohmann::ordered_json keys = nlohmann::ordered_json::array();
  const RunConfig defaults;
  for (const Option& option : options()) {
    if (option.hidden) continue;
    nlohmann::ordered_json key;
    key["key"] = option.key;
    key["flag"] = option.flag.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(option.flag);
    key["type"] = type_text(option);
    key["default"] = json_value(option.get(defaults));
    key["range"] = range_text(option);
    key["unit"] = option.unit;
    key["help"] = option.help;
    keys.push_back(std::move(key));
  }
  return keys;
}

nlohmann::ordered_json resolved_json(const CheckedConfig& config) {
  nlohmann::ordered_json keys;
  for (const Option& option : options()) {
    keys[option.key] = {{"value", json_value(option.get(config.values()))}, {"origin", config.origin(option.key)}};
  }
  return keys;
}

}  // namespace

ExitCode run_config(const CommandLine& line, AppContext& context) {
  const bool asks_for_values =
      line.print_config || !line.config.files.empty() || !line.config.sets.empty() || !line.config.flags.empty();
  if (!asks_for_values) {
    if (line.json) {
      context.out << reference_json().dump(2) << "\n";
    } else {
      context.out << render_reference(line.markdown);
    }
    return ExitCode::kDone;
  }
  std::vector<std::string> warnings;
  const CheckedConfig config = check(line.config, &warnings);
  for (const std::string& warning : warnings) context.log.warning(warning);
  if (line.json) {
    context.out << resolved_json(config).dump(2) << "\n";
  } else {
    context.out << render_toml(config, true);
  }
  return ExitCode::kDone;
}

}  // namespace mgtrain
