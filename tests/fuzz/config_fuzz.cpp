// Configuration: the bytes as TOML, and bound to the options as a checkpoint's configuration is. Input that begins
// with "--" are lines instead: "--set KEY=TEXT", "MGTRAIN_SECTION__KEY=TEXT", "KEY=TEXT" for the flag of a key.
#include <variant>

#include "base/error.h"
#include "config/check.h"
#include "config/options.h"
#include "config/render.h"
#include "config/toml.h"
#include "fuzz/fuzz.h"

using namespace mgtrain;

namespace {

void touch_value(const OptionValue& value) {
  std::visit(
      [](const auto& held) {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::vector<std::string>>) {
          fuzz::touch(held);
        } else if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::string>) {
          fuzz::touch(std::string_view(held));
        } else {
          fuzz::touch(held);
        }
      },
      value);
}

ConfigSources lines_of(std::string_view text) {
  ConfigSources sources;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const size_t equals = line.find('=');
    if (line.starts_with("--set ")) {
      sources.sets.emplace_back(line.substr(6));
    } else if (equals != std::string_view::npos) {
      auto& list = line.starts_with("MGTRAIN_") ? sources.environment : sources.flags;
      list.emplace_back(line.substr(0, equals), line.substr(equals + 1));
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return sources;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text = fuzz::text_of(data, size);
  ConfigSources sources;
  if (text.starts_with("--")) {
    sources = lines_of(text);
  } else {
    const TomlDocument document = read_toml(text);
    for (const TomlEntry& entry : document.entries) {
      fuzz::touch(std::string_view(entry.key));
      fuzz::touch(std::string_view(entry.other));
      if (entry.value) touch_value(*entry.value);
    }
    for (const TomlProblem& problem : document.problems) fuzz::touch(std::string_view(problem.problem + problem.hint));
    sources.base = ConfigBase{.toml = text, .name = "run.json"};
  }
  const Resolution resolution = resolve(sources);
  fuzz::touch(std::string_view(describe(resolution.problems)));
  fuzz::touch(resolution.warnings);
  try {
    const CheckedConfig config = check(sources, nullptr);
    fuzz::demand(resolution.problems.empty(), "a configuration with problems is not taken");
    // Relative paths have become absolute and stay so.
    const std::string written = render_toml(config, /*with_origins=*/false);
    const CheckedConfig again = check({.base = ConfigBase{.toml = written, .name = "again"}}, nullptr);
    fuzz::demand(render_toml(again, /*with_origins=*/false) == written, "what is written again is the same");
  } catch (const ConfigError& error) {
    fuzz::demand(!resolution.problems.empty(), "a configuration without problems is taken");
    fuzz::touch(std::string_view(error.what()));
  }
  return 0;
}
