// From the places a user may write a value to one checked RunConfig. Every problem is found in one pass.
// Precedence: flag > --set > environment MGTRAIN_SECTION__KEY > later --config file > earlier file > default (of a
// resumed run: what its checkpoint was made with).
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/run_config.h"

namespace mgtrain {

struct ConfigProblem {
  std::string where;    // "exp.toml:12", "--lr", "MGTRAIN_OPTIM__LR", "--set optim.lr"
  std::string key;      // may be empty
  std::string problem;  // what is wrong: value seen, value wanted
  std::string hint;     // nearest name or a way out; may be empty
};

/// TOML that is no file of the user's: the configuration a checkpoint was made with.
struct ConfigBase {
  std::string toml;
  std::string name;  // its origin, as messages name it
};

/// What the command line gives to the config: raw texts, in the order written.
struct ConfigSources {
  std::optional<ConfigBase> base;                                // below all others; paths in it are absolute
  std::vector<std::filesystem::path> files;                      // --config, later wins
  std::vector<std::pair<std::string, std::string>> environment;  // all MGTRAIN_*__* variables
  std::vector<std::string> sets;                                 // "a.b=c"
  std::vector<std::pair<std::string, std::string>> flags;        // key -> text ("optim.lr", "0.1")
};

/// A RunConfig that passed every check, with the origin of each value. Only check() makes one.
class CheckedConfig {
 public:
  [[nodiscard]] const RunConfig& values() const { return values_; }
  /// "default", "exp.toml:12", "env MGTRAIN_OPTIM__LR", "--set" or "--lr".
  [[nodiscard]] const std::string& origin(const std::string& key) const { return origins_.at(key); }
  /// Whether the user (not the default) gave the value.
  [[nodiscard]] bool given(const std::string& key) const { return origins_.at(key) != "default"; }

 private:
  friend CheckedConfig check(const ConfigSources& sources, std::vector<std::string>* warnings);
  RunConfig values_;
  std::map<std::string, std::string> origins_;
};

/// What the sources say, with every problem found on the way; a refused value leaves the one below it in force.
struct Resolution {
  RunConfig values;
  std::map<std::string, std::string> origins;  // of every key
  std::vector<ConfigProblem> problems;
  std::vector<std::string> warnings;  // unknown MGTRAIN_* variables
};
/// Reads all sources. Relative paths (data.path, data.val, model.init) become absolute: those of a TOML file from its
/// folder, others from the working directory.
Resolution resolve(const ConfigSources& sources);

/// "where: key: problem (hint)", one a line; more than one under a line with their number.
std::string describe(const std::vector<ConfigProblem>& problems);

/// Throws ConfigError whose message lists every problem, one a line. Unknown MGTRAIN_* variables become warnings.
CheckedConfig check(const ConfigSources& sources, std::vector<std::string>* warnings);

/// Problems of values that only make sense together (micro_batch with accumulate, keep 1, ...).
std::vector<ConfigProblem> cross_check(const RunConfig& config);

/// The MGTRAIN_* entries of a process environment ("environ"), for ConfigSources, without those that are no config
/// (MGTRAIN_DATA: where the embedded data set lies).
std::vector<std::pair<std::string, std::string>> config_environment(char** environment);

}  // namespace mgtrain
