#include "config/render.h"

#include <fstream>
#include <iterator>

#include "config/config_files.h"
#include "config/options.h"
#include "support/catch.h"

using mgtrain::check;
using mgtrain::CheckedConfig;
using mgtrain::Option;
using mgtrain::test::ConfigFolder;

namespace {

void check_equal(const mgtrain::RunConfig& a, const mgtrain::RunConfig& b) {
  for (const Option& option : mgtrain::options()) {
    CAPTURE(option.key);
    CHECK(option.get(a) == option.get(b));
  }
}

}  // namespace

TEST_CASE("the printed config is valid input with equal values", "[config]") {
  const ConfigFolder folder;
  const CheckedConfig config = check(
      {.environment = {{"MGTRAIN_OPTIM__EPS", "1.0000000000000002e-8"}},
       .sets = {"optim.min_lr=0.30000000000000004", "optim.gamma=1e300", "optim.onecycle_end=3",
                "train.time_limit=100s", "optim.milestones=[\"80e\", \"33.3%\"]", "data.normalize=0.1,0.2,0.3;1,2,3"},
       .flags = {{"data.path", "a \"quoted\" \\ path\twith \x01 \x7f and caf\xc3\xa9 # no comment"},
                 {"train.seed", "9223372036854775807"},
                 {"devices.gpus", "3,"},
                 {"optim.lr", "0.1"},
                 {"devices.allow_duplicates", "true"},
                 {"optim.warmup", "0.1e"},
                 {"train.assert", "val.top1>=0.9,val.loss<1"}}},
      nullptr);
  for (const bool with_origins : {false, true}) {
    const auto file = folder.write("printed.toml", mgtrain::render_toml(config, with_origins));
    check_equal(check({.files = {file}}, nullptr).values(), config.values());
  }
  check_equal(check({.files = {folder.write("plain.toml", mgtrain::render_toml(config.values()))}}, nullptr).values(),
              config.values());
}

TEST_CASE("the printed config shows every value with where it came from", "[config]") {
  const ConfigFolder folder;
  const auto file = folder.write("exp.toml", "[train]\n\nbatch = 32\n");
  const std::string text = mgtrain::render_toml(check({.files = {file},
                                                       .environment = {{"MGTRAIN_TRAIN__EPOCHS", "7"}},
                                                       .sets = {"train.seed=4"},
                                                       .flags = {{"optim.lr", "0.25"}}},
                                                      nullptr),
                                                true);
  CHECK(text.find("\nbatch = 32  # " + file.string() + ":3\n") != std::string::npos);
  CHECK(text.find("\nepochs = 7  # env MGTRAIN_TRAIN__EPOCHS\n") != std::string::npos);
  CHECK(text.find("\nseed = 4  # --set\n") != std::string::npos);
  CHECK(text.find("\nlr = 0.25  # --lr\n") != std::string::npos);
  CHECK(text.find("\nmomentum = 0.9  # default\n") != std::string::npos);
  CHECK(text.find("\ntime_limit = \"none\"  # default\n") != std::string::npos);
  CHECK(text.find("allow_duplicates") == std::string::npos);
}

TEST_CASE("the reference names every key but the hidden one", "[config]") {
  const std::string page = mgtrain::render_reference(false), markdown = mgtrain::render_reference(true);
  for (const Option& option : mgtrain::options()) {
    CAPTURE(option.key);
    CHECK((markdown.find("| `" + option.key + "` |") != std::string::npos) != option.hidden);
    CHECK((page.find("\n  " + mgtrain::name_in_section(option.key) + " = ") != std::string::npos) != option.hidden);
  }
}

TEST_CASE("docs/config.md is what `mgtrain config --markdown` prints", "[config]") {
  std::ifstream stream(MGTRAIN_SOURCE_DIR "/docs/config.md", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  CHECK(text == mgtrain::render_reference(true));
}
