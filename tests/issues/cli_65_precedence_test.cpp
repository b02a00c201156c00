// The environment did not override the config file: CLIUtils/CLI11#890. For every option and every subset of the
// sources that give it, the strongest wins and is named as the origin.
#include "config/config_files.h"
#include "config/options.h"
#include "config/render.h"
#include "support/catch.h"

using mgtrain::ConfigSources;
using mgtrain::Option;
using mgtrain::OptionValue;
using mgtrain::test::ConfigFolder;

namespace {

enum Source { kFirstFile, kSecondFile, kEnvironment, kSet, kFlag, kNumSources };

/// A value for each source, as a text; neighbours differ where the option has more than one value.
std::string sample(const Option& option, int source) {
  const auto n = std::to_string(source + 1);
  switch (option.type) {
    case Option::Type::kBool:
      return source % 2 == 0 ? "true" : "false";
    case Option::Type::kInteger:
      return std::to_string(static_cast<int64_t>(option.minimum) + 1 + source);
    case Option::Type::kNumber:
    case Option::Type::kOptionalNumber:
      return "0.12" + n;
    case Option::Type::kEvery:
      return n + "e";
    case Option::Type::kDuration:
      return n + "m";
    case Option::Type::kStrings:
      return option.key == "train.assert" ? "val.top1>0." + n : n + "e";
    case Option::Type::kString:
      break;
  }
  if (!option.choices.empty()) return option.choices[static_cast<size_t>(source) % option.choices.size()];
  if (option.key == "data.normalize") return "0." + n + ";0.5";
  if (option.key == "optim.lr_scale") return "linear:" + n;
  return option.path ? "/folder" + n : n;
}

std::string toml_of(const Option& option, const std::string& text) {
  mgtrain::RunConfig config;
  REQUIRE_FALSE(option.set(config, text).has_value());
  return "[" + mgtrain::section_of(option.key) + "]\n" + mgtrain::name_in_section(option.key) + " = " +
         mgtrain::toml_text(option.get(config)) + "\n";
}

std::string environment_name(const Option& option) {
  std::string name = "MGTRAIN_" + mgtrain::section_of(option.key) + "__" + mgtrain::name_in_section(option.key);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace

TEST_CASE("flag > --set > environment > later file > earlier file > default, for every option", "[issues]") {
  const ConfigFolder folder;
  for (const Option& option : mgtrain::options()) {
    std::string files[2];
    for (int i : {0, 1}) {
      files[i] = folder.write(option.key + std::to_string(i) + ".toml", toml_of(option, sample(option, i))).string();
    }
    for (int subset = 0; subset < (1 << kNumSources); ++subset) {
      const auto has = [&](int source) { return (subset & (1 << source)) != 0; };
      if (has(kFlag) && option.flag.empty()) continue;
      ConfigSources sources;
      std::string origin = "default";
      int strongest = -1;
      const auto gives = [&](int source, const std::string& name) { strongest = source, origin = name; };
      for (const int i : {kFirstFile, kSecondFile}) {
        if (has(i)) sources.files.emplace_back(files[i]), gives(i, files[i] + ":2");
      }
      const std::string variable = environment_name(option);
      if (has(kEnvironment)) {
        sources.environment.emplace_back(variable, sample(option, kEnvironment));
        gives(kEnvironment, "env " + variable);
      }
      if (has(kSet)) sources.sets.push_back(option.key + "=" + sample(option, kSet)), gives(kSet, "--set");
      if (has(kFlag)) sources.flags.emplace_back(option.key, sample(option, kFlag)), gives(kFlag, option.flag);

      mgtrain::RunConfig expected;
      if (strongest >= 0) REQUIRE_FALSE(option.set(expected, sample(option, strongest)).has_value());
      const mgtrain::Resolution resolution = mgtrain::resolve(sources);
      CAPTURE(option.key, subset);
      CHECK(option.get(resolution.values) == option.get(expected));
      CHECK(resolution.origins.at(option.key) == origin);
      CHECK(resolution.warnings.empty());
    }
  }
}

TEST_CASE("--print-config shows the source that won", "[issues]") {
  const ConfigFolder folder;
  const auto file = folder.write("exp.toml", "[train]\nbatch = 32\n");
  const auto printed = [&](ConfigSources sources) {
    sources.files = {file};
    return mgtrain::render_toml(mgtrain::check(sources, nullptr), true);
  };
  CHECK(printed({}).find("\nbatch = 32  # " + file.string() + ":2\n") != std::string::npos);
  const std::pair<std::string, std::string> variable{"MGTRAIN_TRAIN__BATCH", "64"};
  CHECK(printed({.environment = {variable}}).find("\nbatch = 64  # env MGTRAIN_TRAIN__BATCH\n") != std::string::npos);
  CHECK(printed({.environment = {variable}, .flags = {{"train.batch", "96"}}}).find("\nbatch = 96  # --batch\n") !=
        std::string::npos);
}
