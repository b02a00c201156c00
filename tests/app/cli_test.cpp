#include <string>
#include <vector>

#include "app/command_table.h"
#include "app/commands.h"
#include "base/error.h"
#include "config/config_files.h"
#include "config/options.h"
#include "support/catch.h"

using mgtrain::CommandLine;
using Command = mgtrain::CommandLine::Command;

namespace {

CommandLine parse(std::vector<std::string> words, std::vector<std::string> environment = {}) {
  words.insert(words.begin(), "mgtrain");
  std::vector<char*> argv, environ_entries;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& entry : environment) environ_entries.push_back(entry.data());
  environ_entries.push_back(nullptr);
  return mgtrain::parse_command_line(static_cast<int>(argv.size()), argv.data(), environ_entries.data());
}

std::string refused(const std::vector<std::string>& words) {
  try {
    parse(words);
  } catch (const mgtrain::ConfigError& error) {
    return error.what();
  }
  return "";
}

using Flags = std::vector<std::pair<std::string, std::string>>;

}  // namespace

TEST_CASE("the command that the program is for trains", "[app]") {
  const CommandLine line = parse({"--gpus", "0,1", "--batch", "256"});
  CHECK(line.command == Command::kTrain);
  CHECK(line.config.flags == Flags{{"train.batch", "256"}, {"devices.gpus", "0,1"}});
  CHECK(line.items.empty());
  CHECK(line.arguments == std::vector<std::string>{"mgtrain", "--gpus", "0,1", "--batch", "256"});
  CHECK(parse({}).command == Command::kTrain);
  CHECK(parse({"train", "--batch=256"}).config.flags == Flags{{"train.batch", "256"}});
  CHECK(parse({"--batch=256", "train"}).config.flags == Flags{{"train.batch", "256"}});
}

TEST_CASE("each command takes what belongs to it", "[app]") {
  CHECK(parse({"eval", "runs/a"}).command == Command::kEval);
  CHECK(parse({"eval", "runs/a"}).items == std::vector<std::string>{"runs/a"});
  CHECK(parse({"eval", "train"}).items == std::vector<std::string>{"train"});  // a run folder of that name
  const CommandLine predict = parse({"predict", "runs/a", "x.png", "--topk", "3", "-", "--json", "--", "--odd.png"});
  CHECK(predict.command == Command::kPredict);
  CHECK(predict.items == std::vector<std::string>{"runs/a", "x.png", "-", "--odd.png"});
  CHECK(predict.topk == 3);
  CHECK(predict.json);
  CHECK(parse({"devices", "--json"}).command == Command::kDevices);
  CHECK(parse({"--json", "devices"}).command == Command::kDevices);
  CHECK(parse({"plan", "--gpus", "2"}).command == Command::kPlan);
  CHECK(parse({"data", "info"}).command == Command::kDataInfo);
  CHECK(parse({"data", "check", "d", "--data-format", "idx"}).items == std::vector<std::string>{"d"});
  CHECK(parse({"checkpoint", "verify", "p"}).command == Command::kCheckpointVerify);
  CHECK(parse({"checkpoint", "inspect", "p"}).command == Command::kCheckpointInspect);
  CHECK(parse({"config", "--markdown"}).markdown);
}

TEST_CASE("what is no config key lands in its own field", "[app]") {
  const CommandLine line =
      parse({"--config", "a.toml", "--config=b.toml", "--set", "optim.lr=1", "--set=data.flip=false", "--output", "o",
             "--resume", "auto", "--resume-changes", "allow", "--overwrite", "--dry-run", "--quiet", "--print-config"},
            {"MGTRAIN_TRAIN__SEED=3", "HOME=/"});
  CHECK(line.config.files == std::vector<std::filesystem::path>{"a.toml", "b.toml"});
  CHECK(line.config.sets == std::vector<std::string>{"optim.lr=1", "data.flip=false"});
  CHECK(line.config.environment == Flags{{"MGTRAIN_TRAIN__SEED", "3"}});
  CHECK(line.output == "o");
  CHECK(line.resume == "auto");
  CHECK((line.resume_changes_allow && line.overwrite && line.dry_run && line.quiet && line.print_config));
  CHECK_FALSE(parse({"--overwrite=false"}).overwrite);
}

TEST_CASE("any value reaches the config as written", "[app]") {
  for (const char* value :
       {"-1", "-0.1", "3,", "[0,1]", "a=b", "", " ", "{x}", "%%", "\"q\"", "a b", "/x", "-x", "true"}) {
    CAPTURE(value);
    CHECK(parse({"--gpus", value}).config.flags == Flags{{"devices.gpus", value}});
    CHECK(parse({std::string("--gpus=") + value}).config.flags == Flags{{"devices.gpus", value}});
  }
  CHECK(parse({"--gpus=--x"}).config.flags == Flags{{"devices.gpus", "--x"}});
  CHECK(parse({"--init="}).config.flags == Flags{{"model.init", ""}});
}

TEST_CASE("truth values stand alone or after =", "[app]") {
  CHECK(parse({"--drop-last"}).config.flags == Flags{{"data.drop_last", "true"}});
  CHECK(parse({"--drop-last=false"}).config.flags == Flags{{"data.drop_last", "false"}});
  CHECK(parse({"--drop-last=true", "--batch", "2"}).config.flags ==
        Flags{{"data.drop_last", "true"}, {"train.batch", "2"}});
  CHECK(mgtrain::test::refusal(parse({"--drop-last=maybe"}).config) ==
        "--drop-last: data.drop_last: \"maybe\" is neither true nor false");
  CHECK(refused({"--drop-last", "false"}).find("--drop-last=false") != std::string::npos);
  CHECK_FALSE(refused({"--drop-last="}).empty());
  CHECK_FALSE(refused({"--json=maybe"}).empty());
}

TEST_CASE("flags may be given again: lists add up, else the last counts", "[app]") {
  const auto config =
      mgtrain::check(parse({"--freeze", "conv1", "--batch", "1", "--freeze=bn1,layer1", "--batch", "2"}).config,
                     nullptr)
          .values();
  CHECK(config.model.freeze == std::vector<std::string>{"conv1", "bn1", "layer1"});
  CHECK(config.train.batch == 2);
}

TEST_CASE("every flag of the table is taken, and with its value", "[app]") {
  for (const mgtrain::Option& option : mgtrain::options()) {
    if (option.flag.empty()) continue;
    CAPTURE(option.flag);
    const bool truth = option.type == mgtrain::Option::Type::kBool;
    const auto words = truth ? std::vector<std::string>{option.flag} : std::vector<std::string>{option.flag, "value"};
    for (const char* command : {"train", "plan"}) {
      std::vector<std::string> all = {command};
      all.insert(all.end(), words.begin(), words.end());
      CHECK(parse(all).config.flags == Flags{{option.key, truth ? "true" : "value"}});
    }
  }
}

TEST_CASE("an unknown flag or command is answered with the nearest", "[app]") {
  CHECK(refused({"--bacth", "256"}) == "--bacth: unknown flag (did you mean --batch?)");
  CHECK(refused({"--bacth=256"}) == "--bacth: unknown flag (did you mean --batch?)");
  CHECK(refused({"-batch", "256"}) == "-batch: unknown flag (did you mean --batch?)");
  CHECK(refused({"--batch-size", "256"}) == "--batch-size: unknown flag (did you mean --batch?)");
  CHECK(refused({"--amp", "bf16"}) == "--amp: unknown flag (`mgtrain train --help` lists the flags)");
  CHECK(refused({"--nesterov=false"}) ==
        "--nesterov: unknown flag (this config key has none: --set optim.nesterov=VALUE)");
  CHECK(refused({"--allow-duplicates"}).find("--set") == std::string::npos);
  CHECK(refused({"evla", "runs/a"}).find("\"evla\": unknown command (did you mean eval?)") != std::string::npos);
  CHECK(refused({"data", "verify", "d"}).find("write info or check") != std::string::npos);
  CHECK(refused({"checkpoint"}).find("write verify or inspect") != std::string::npos);
  CHECK(refused({"exp.toml"}).find("--config exp.toml") != std::string::npos);
  CHECK(refused({"train", "now"}).find("\"now\": unexpected argument") == 0);
  CHECK(refused({"eval", "a", "b"}).find("\"b\": unexpected argument") == 0);
  CHECK(refused({"eval", "a", "--lr", "1"}).find("--lr: is not a flag of `mgtrain eval`") == 0);
  CHECK(refused({"eval"}).find("mgtrain eval: needs RUN") == 0);
  CHECK(refused({"data", "info", "a", "--data", "b"}).find("--data: ") == 0);
  CHECK(refused({"--batch"}).find("--batch: needs a value") == 0);
  CHECK(refused({"--resume", "--overwrite"}).find("--resume: needs a value") == 0);
  CHECK(refused({"--resume-changes", "yes"}).find("allow") != std::string::npos);
  CHECK(refused({"--output="}).find("--output: is empty") == 0);
  for (const char* k : {"0", "-1", "1.5", "x", "99999999999"})
    CHECK_FALSE(refused({"predict", "a", "b", "--topk", k}).empty());
}

TEST_CASE("wrong flags and wrong values are told in one pass", "[app]") {
  CHECK(refused({"--bacth", "256", "--epochs", "0", "--set", "train.epochz=1"}) ==
        "3 problems:\n"
        "  --bacth: unknown flag (did you mean --batch?)\n"
        "  --set train.epochz: unknown key (did you mean train.epochs?)\n"
        "  --epochs: train.epochs: 0 is out of range: 1 or more");
}

TEST_CASE("--set with a key that the command does not use is refused", "[app]") {
  const std::string message = refused({"eval", "runs/a", "--set", "data.normalize=none"});
  CHECK(message.find("--set data.normalize") != std::string::npos);
  CHECK(message.find("`mgtrain eval`") != std::string::npos);
  CHECK(parse({"eval", "runs/a", "--set", "data.workers=2"}).config.sets.size() == 1);
}

TEST_CASE("help and version are texts", "[app]") {
  const CommandLine help = parse({"--help"});
  CHECK(help.command == Command::kText);
  for (const mgtrain::Option& option : mgtrain::options()) {
    if (!option.flag.empty()) CHECK(help.text.find("\n  " + option.flag) != std::string::npos);
  }
  CHECK(help.text.find("\nDevices\n") != std::string::npos);
  CHECK(help.text.find("[128 images]") != std::string::npos);
  CHECK(help.text.find("mgtrain --gpus 0,1 --batch 256") != std::string::npos);
  CHECK(help.text.find("allow-duplicates") == std::string::npos);
  size_t longest = 0, begin = 0;
  for (size_t end; (end = help.text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    longest = std::max(longest, end - begin);
  }
  CHECK(longest <= 120);
  CHECK(parse({"eval", "--help"}).text.find("Usage: mgtrain eval RUN") == 0);
  CHECK(parse({"data", "--help"}).text.find("Usage: mgtrain data info") == 0);
  CHECK(parse({"--batch", "x", "-h"}).text == help.text);
  CHECK(parse({"--version"}).text.find("mgtrain ") == 0);
}
