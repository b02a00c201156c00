#include "app/command_table.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

namespace mgtrain {

namespace {

using Command = CommandLine::Command;

bool any_option(const Option&) { return true; }

bool is_one_of(const Option& option, std::span<const std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), option.key) != keys.end();
}

bool eval_option(const Option& option) {
  // How images reach the model (size, normalisation) is the run's, whatever the data.
  static constexpr std::array<std::string_view, 9> kKeys = {
      "data.path",   "data.format",         "data.val",          "data.workers",    "data.prefetch",
      "train.batch", "train.memory_format", "parallel.strategy", "output.log_level"};
  return section_of(option.key) == "devices" || is_one_of(option, kKeys);
}

bool predict_option(const Option& option) {
  static constexpr std::array<std::string_view, 4> kKeys = {"data.workers", "train.batch", "train.memory_format",
                                                            "output.log_level"};
  return section_of(option.key) == "devices" || is_one_of(option, kKeys);
}

bool data_option(const Option& option) {
  static constexpr std::array<std::string_view, 4> kKeys = {"data.path", "data.format", "data.val", "output.log_level"};
  return is_one_of(option, kKeys);
}

bool log_option(const Option& option) { return option.key == "output.log_level"; }

const std::vector<std::string>& train_flags() {
  static const std::vector<std::string> flags = {"--config",         "--set",       "--output",       "--resume",
                                                 "--resume-changes", "--overwrite", "--print-config", "--dry-run",
                                                 "--json",           "--quiet"};
  return flags;
}

std::vector<CommandSpec> make_commands() {
  return {
      {{"train"},
       Command::kTrain,
       "",
       0,
       0,
       "train a network (the default command)",
       train_flags(),
       any_option,
       {"--gpus 0,1 --batch 256",
        "--config configs/cifar10_resnet18.toml --set data.flip=false --resume auto --output runs/a"}},
      {{"eval"},
       Command::kEval,
       "RUN",
       1,
       1,
       "score a run or checkpoint on a data set",
       {"--checkpoint", "--config", "--set", "--json", "--quiet"},
       eval_option,
       {"eval runs/a", "eval runs/a --checkpoint last --data other/set --json"}},
      {{"predict"},
       Command::kPredict,
       "RUN [ITEM...]",
       1,
       static_cast<size_t>(-1),
       "classify pictures: files, folders, FILE.idx:INDEX, or - for a list on stdin",
       {"--topk", "--checkpoint", "--config", "--set", "--json", "--quiet"},
       predict_option,
       {"predict runs/a shoe.png", "predict runs/a pictures/ --topk 3 --json"}},
      {{"devices"},
       Command::kDevices,
       "",
       0,
       0,
       "show the GPUs of this machine, or why one cannot be used",
       {"--json", "--quiet"},
       log_option,
       {"devices", "devices --json"}},
      {{"plan"},
       Command::kPlan,
       "",
       0,
       0,
       "say what train would decide and check, without training",
       train_flags(),
       any_option,
       {"plan --gpus 0,1 --batch 256", "plan --config configs/cifar10_resnet18.toml --json"}},
      {{"data", "info"},
       Command::kDataInfo,
       "[PATH]",
       0,
       1,
       "show classes, counts and shapes of a data set",
       {"--config", "--set", "--json", "--quiet"},
       data_option,
       {"data info", "data info data/cifar-10-batches-bin"}},
      {{"data", "check"},
       Command::kDataCheck,
       "[PATH]",
       0,
       1,
       "find every fault in a data set",
       {"--config", "--set", "--json", "--quiet"},
       data_option,
       {"data check data/cifar-10-batches-bin", "data check data/fashion-mnist --data-format idx --json"}},
      {{"checkpoint", "verify"},
       Command::kCheckpointVerify,
       "PATH",
       1,
       1,
       "say whether a checkpoint or run is whole",
       {"--json", "--quiet"},
       log_option,
       {"checkpoint verify runs/a", "checkpoint verify runs/a/checkpoints/step-00000790"}},
      {{"checkpoint", "inspect"},
       Command::kCheckpointInspect,
       "PATH",
       1,
       1,
       "show what is in a checkpoint",
       {"--json", "--quiet"},
       log_option,
       {"checkpoint inspect runs/a/best", "checkpoint inspect runs/a/best --json"}},
      {{"config"},
       Command::kConfig,
       "",
       0,
       0,
       "list every config key with default, values, unit and meaning",
       {"--markdown", "--json", "--print-config", "--config", "--set", "--quiet"},
       any_option,
       {"config", "config --print-config --config configs/quickstart.toml"}},
  };
}

}  // namespace

std::span<const CommandSpec> commands() {
  static const std::vector<CommandSpec> table = make_commands();
  return table;
}

std::span<const OwnFlag> own_flags() {
  static const std::vector<OwnFlag> table = {
      {"--config", "FILE", true, "Read a TOML file; may be given again, later files win"},
      {"--set", "KEY=VALUE", true, "Set any config key, such as --set data.flip=false; may be given again"},
      {"--output", "DIR", false, "Run folder [runs/<model>-<UTC time>]"},
      {"--resume", "auto|PATH", false, "Go on from the newest checkpoint of the run folder, if any, or from PATH"},
      {"--resume-changes", "allow", false, "On resume, allow options that change the course of training"},
      {"--overwrite", "", false, "Replace the run that --output holds"},
      {"--print-config", "", false, "Print the resolved config with the origin of every value, and exit"},
      {"--dry-run", "", false, "Do what `mgtrain plan` does, and exit"},
      {"--checkpoint", "WHICH", false, "best, last, a step number or a path [best, else the newest]"},
      {"--topk", "K", false, "Classes shown for each item [1]"},
      {"--markdown", "", false, "Print Markdown"},
      {"--json", "", false, "Print JSON on stdout"},
      {"--quiet", "", false, "Print errors and the result only"},
  };
  return table;
}

const OwnFlag& own_flag(const std::string& name) {
  const auto flags = own_flags();
  const auto found = std::find_if(flags.begin(), flags.end(), [&](const OwnFlag& flag) { return flag.name == name; });
  if (found == flags.end()) throw std::logic_error("no such flag: " + name);
  return *found;
}

std::string spoken_name(const CommandSpec& spec) {
  std::string name = "mgtrain";
  for (const std::string& word : spec.words) name += " " + word;
  return name;
}

bool takes_flag(const CommandSpec& spec, const Option& option) {
  return !option.flag.empty() && !option.hidden && spec.takes(option);
}

}  // namespace mgtrain
