#include "config/check.h"

#include "config/config_files.h"
#include "config/options.h"
#include "support/catch.h"

namespace fs = std::filesystem;
using mgtrain::check;
using mgtrain::CheckedConfig;
using mgtrain::ConfigError;
using mgtrain::ConfigSources;
using mgtrain::test::ConfigFolder;
using mgtrain::test::refusal;
using mgtrain::test::refusal_of_file;

TEST_CASE("nothing given is the defaults", "[config]") {
  const CheckedConfig config = check({}, nullptr);
  CHECK(config.values().train.batch == 128);
  CHECK(config.values().train.epochs == 10);
  CHECK(config.origin("train.batch") == "default");
  CHECK_FALSE(config.given("train.batch"));
}

TEST_CASE("every problem of every source is told in one pass", "[config]") {
  const ConfigFolder folder;
  const ConfigSources sources{
      .files = {folder.write("exp.toml", "[train]\nepochz = 5\nbatch = \"64\"\n[optim]\nmomentum = 2.0\n")},
      .environment = {{"MGTRAIN_TRAIN__SEED", "x"}, {"MGTRAIN_TRAIN__SED", "1"}},
      .sets = {"optim.lr=0,1", "lr", "train.lr=1"},
      .flags = {{"train.accumulate", "0"}, {"devices.missing_gpus", "eror"}},
  };
  std::vector<std::string> warnings;
  std::string message;
  try {
    check(sources, &warnings);
  } catch (const ConfigError& error) {
    message = error.what();
  }
  const std::string file = (folder.path() / "exp.toml").string();
  CHECK(message ==
        "9 problems:\n"
        "  " +
            file +
            ":2: train.epochz: unknown key (did you mean train.epochs?)\n"
            "  " +
            file +
            ":3: train.batch: a string (\"64\") where a whole number belongs (such as batch = 128)\n"
            "  " +
            file +
            ":5: optim.momentum: 2 is out of range: 0 or more, less than 1\n"
            "  MGTRAIN_TRAIN__SEED: train.seed: \"x\" is not a whole number\n"
            "  --set optim.lr: \"0,1\" is not a number: the decimal mark is a point, as in 0.1\n"
            "  --set lr: is not of the form key=value (such as --set optim.lr=0.1)\n"
            "  --set train.lr: unknown key (did you mean optim.lr?)\n"
            "  --accumulate: train.accumulate: 0 is out of range: 1 or more\n"
            "  --missing-gpus: devices.missing_gpus: \"eror\" is not one of auto, error, skip; did you mean error?");
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("MGTRAIN_TRAIN__SED ") != std::string::npos);
  CHECK(warnings[0].find("did you mean MGTRAIN_TRAIN__SEED?") != std::string::npos);
}

TEST_CASE("a TOML value of the wrong type is told with its line", "[config]") {
  CHECK(refusal_of_file("[train]\nbatch = 64.0\n").find("exp.toml:2: train.batch: a float (64.0)") == 0);
  CHECK(refusal_of_file("[train]\ndeterministic = 1\n").find("exp.toml:2: train.deterministic: an integer (1)") == 0);
  CHECK(refusal_of_file("[optim]\nlr = \"0.1\"\n").find("exp.toml:2: optim.lr: a string") == 0);
  CHECK(refusal_of_file("[optim]\nlr = nan\n").find("exp.toml:2: optim.lr: ") == 0);
  CHECK(refusal_of_file("[optim]\nlr = inf\n").find("exp.toml:2: optim.lr: ") == 0);
  CHECK(refusal_of_file("[train]\nseed = 2020-01-01\n").find("does not take a date") != std::string::npos);
  CHECK(refusal_of_file("[train]\ntime_limit = 30\n").find("\"30m\"") != std::string::npos);
  CHECK(refusal_of_file("[model]\nfreeze = [1, 2]\n").find("an array of integers") != std::string::npos);
  CHECK(refusal_of_file("[devices]\ngpus = [0, 1]\n").find("an array") != std::string::npos);
  CHECK(refusal_of_file("train = 5\n").find("exp.toml:1: train: is a section") == 0);
  CHECK(refusal_of_file("[train.epochs]\nx = 1\n").find("train.epochs: does not take a section") != std::string::npos);
  CHECK(refusal_of_file("[trian]\n").find("unknown section (did you mean [train]?)") != std::string::npos);
}

TEST_CASE("integers stand for texts and periods where a person writes them so", "[config]") {
  const ConfigFolder folder;
  const auto file = folder.write("exp.toml",
                                 "[devices]\ngpus = 2\nprimary = 1\n[checkpoint]\nsave_every = 100\n"
                                 "[optim]\nmilestones = [80, \"120e\"]\nlr = 1\n[train]\ntime_limit = \"2h\"\n");
  const auto config = check({.files = {file}}, nullptr).values();
  CHECK(config.devices.gpus == "2");
  CHECK(config.devices.primary == "1");
  CHECK(config.checkpoint.save_every == mgtrain::Every{100});
  CHECK(config.optim.milestones == std::vector<std::string>{"80", "120e"});
  CHECK(config.optim.lr == 1.0);
  CHECK(config.train.time_limit_minutes == 120.0);
}

TEST_CASE("relative paths of a file start at its folder, others at the working directory", "[config]") {
  const ConfigFolder folder;
  const auto file = folder.write("deep/exp.toml",
                                 "[data]\npath = \"../images\"\nval = \"other\"\n[model]\ninit = \"w.safetensors\"\n");
  const auto config = check({.files = {file}}, nullptr).values();
  CHECK(config.data.path == (folder.path() / "images").string());
  CHECK(config.data.val == (folder.path() / "deep/other").string());
  CHECK(config.model.init == (folder.path() / "deep/w.safetensors").string());

  const auto words =
      folder.write("words.toml", "[data]\npath = \"synthetic:3x32x32\"\nval = \"10%\"\n[model]\ninit = \"\"\n");
  const auto unchanged = check({.files = {words}}, nullptr).values();
  CHECK(unchanged.data.path == "synthetic:3x32x32");
  CHECK(unchanged.data.val == "10%");
  CHECK(unchanged.model.init.empty());

  const auto flags = check({.flags = {{"data.path", "images"}, {"model.init", "/w"}}}, nullptr).values();
  CHECK(flags.data.path == (fs::current_path() / "images").string());
  CHECK(flags.model.init == "/w");
  CHECK(flags.data.val == "auto");
}

TEST_CASE("a path through a symbolic link's parent is the one the system opens", "[config]") {
  const ConfigFolder folder;
  folder.write("real/configs/exp.toml", "[data]\npath = \"../images\"\n");
  fs::create_directory_symlink(folder.path() / "real/configs", folder.path() / "link");
  CHECK(check({.files = {folder.path() / "link/exp.toml"}}, nullptr).values().data.path ==
        (folder.path() / "real/images").string());
}

TEST_CASE("a file that cannot be read is a problem that names it", "[config]") {
  const ConfigFolder folder;
  CHECK(refusal({.files = {folder.path() / "none.toml"}}) ==
        (folder.path() / "none.toml").string() +
            ": cannot be read: No such file or directory (--config takes a TOML file)");
  CHECK(refusal({.files = {folder.path()}}).find("it is a folder") != std::string::npos);
}

TEST_CASE("a list's flags add up, of other flags the last counts", "[config]") {
  const auto config = check({.sets = {"model.freeze=[\"x\", \"y,z\"]"}}, nullptr).values();
  CHECK(config.model.freeze == std::vector<std::string>{"x", "y,z"});
  const auto flags = check({.flags = {{"model.freeze", "conv1"},
                                      {"train.batch", "32"},
                                      {"model.freeze", "bn1,layer1"},
                                      {"train.batch", "64"}}},
                           nullptr)
                         .values();
  CHECK(flags.model.freeze == std::vector<std::string>{"conv1", "bn1", "layer1"});
  CHECK(flags.train.batch == 64);
}

TEST_CASE("values that make no sense together are told by the key and its origin", "[config]") {
  CHECK(refusal({.flags = {{"train.micro_batch", "8"}, {"train.accumulate", "2"}}})
            .find("--micro-batch: train.micro_batch: cannot stand together") == 0);
  CHECK(refusal({.flags = {{"train.accumulate", "8"}, {"train.batch", "4"}}}).find("--accumulate: ") == 0);
  CHECK(refusal({.sets = {"optim.schedule=multistep"}}).find("optim.milestones: is empty") != std::string::npos);
  CHECK(refusal({.flags = {{"model.reset_head", "true"}}}).find("--reset-head: ") == 0);
  CHECK(refusal({.flags = {{"model.allow_missing", "true"}}}).find("--allow-missing: ") == 0);
  CHECK(refusal({.flags = {{"data.val", "none"}, {"train.assert", "val.top1>=0.5"}}}).find("--assert: ") == 0);
  CHECK(refusal({.flags = {{"data.val", "none"}, {"train.early_stop", "3"}}}).find("--early-stop: ") == 0);
  CHECK(refusal({.flags = {{"train.eval_every", "0"}, {"train.early_stop", "3"}}}).find("--early-stop: ") == 0);
  CHECK(refusal({.flags = {{"train.micro_batch", "8"}}}).empty());
  CHECK(refusal({.flags = {{"parallel.strategy", "dp"}, {"parallel.sync_bn", "true"}}}).find("use ddp") !=
        std::string::npos);
  for (const char* strategy : {"auto", "single", "ddp"})
    CHECK(refusal({.flags = {{"parallel.strategy", strategy}, {"parallel.sync_bn", "true"}}}).empty());
  // A refused value proves nothing about its neighbours.
  const std::string one = refusal({.flags = {{"optim.schedule", "multistep"}, {"optim.milestones", "x"}}});
  CHECK(one.find("problems") == std::string::npos);
}

TEST_CASE("the environment of a process is read for config keys only", "[config]") {
  std::string entries[] = {"PATH=/bin", "MGTRAIN_OPTIM__LR=0.5=", "MGTRAIN_DATA=/data", "MGTRAIN_X",
                           "MGTRAIN_EPOCHS=3"};
  char* environment[] = {entries[0].data(), entries[1].data(), entries[2].data(),
                         entries[3].data(), entries[4].data(), nullptr};
  const auto variables = mgtrain::config_environment(environment);
  REQUIRE(variables.size() == 2);
  CHECK(variables[0] == std::pair<std::string, std::string>("MGTRAIN_OPTIM__LR", "0.5="));
  CHECK(variables[1].first == "MGTRAIN_EPOCHS");

  std::vector<std::string> warnings;
  check({.environment = {variables[1]}}, &warnings);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("did you mean MGTRAIN_TRAIN__EPOCHS?") != std::string::npos);
}

TEST_CASE("a text that is not UTF-8 is refused, as no record of the run could hold it", "[config]") {
  CHECK(refusal({.flags = {{"data.path", "caf\xe9"}}}).find("not valid UTF-8") != std::string::npos);
  CHECK(refusal({.flags = {{"data.path", "caf\xc3\xa9"}}}).empty());
}
