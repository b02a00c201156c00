// A typo in the config file was ignored: CLIUtils/CLI11#571. Whatever names no key is told with file, line and the
// nearest name; a byte order mark and CR LF are not errors.
#include "config/config_files.h"
#include "support/catch.h"

using mgtrain::test::ConfigFolder;
using mgtrain::test::refusal_of_file;

TEST_CASE("a key that does not exist is refused with line and nearest name", "[issues]") {
  CHECK(refusal_of_file("# recipe\n[train]\nepochz = 5\n") ==
        "exp.toml:3: train.epochz: unknown key (did you mean train.epochs?)");
  CHECK(refusal_of_file("[train]\nlr = 0.1\n") == "exp.toml:2: train.lr: unknown key (did you mean optim.lr?)");
  CHECK(refusal_of_file("[optimizer]\nlr = 0.1\n") == "exp.toml:2: optimizer.lr: unknown key (did you mean optim.lr?)");
  CHECK(refusal_of_file("[train]\nEpochs = 5\n") ==
        "exp.toml:2: train.Epochs: unknown key (did you mean train.epochs?)");
  CHECK(refusal_of_file("[Train]\nepochs = 5\n") ==
        "exp.toml:2: Train.epochs: unknown key (did you mean train.epochs?)");
  CHECK(refusal_of_file("epochs = 5\n") == "exp.toml:1: epochs: unknown key (did you mean train.epochs?)");
}

TEST_CASE("a key given twice is refused with both lines", "[issues]") {
  CHECK(refusal_of_file("[train]\nepochs = 5\nbatch = 64\nepochs = 6\n") ==
        "exp.toml:4: train.epochs: is given twice (first in line 2)");
  CHECK(refusal_of_file("[train]\nepochs = 5\n[optim]\nlr = 0.1\n[train]\nbatch = 64\n").find("exp.toml:5: ") == 0);
}

TEST_CASE("a typo beside a duplicate and a syntax error: all are told", "[issues]") {
  const std::string message =
      refusal_of_file("[train]\nepochz = 5\nbatch = 1\nbatch = 2\n[optim]\nlr = = 1\nmomentun = 0.5\n");
  CHECK(message.find("4 problems:") == 0);
  for (const char* where :
       {"exp.toml:2: train.epochz", "exp.toml:4: train.batch", "exp.toml:6: ", "exp.toml:7: optim.momentun"}) {
    CAPTURE(where, message);
    CHECK(message.find(where) != std::string::npos);
  }
}

TEST_CASE("a byte order mark and CR LF are accepted, and lines still count", "[issues]") {
  const ConfigFolder folder;
  const auto good =
      folder.write("good.toml", "\xef\xbb\xbf[train]\r\nepochs = 5\r\n\r\n[optim]\r\noptimizer = \"adam\"\r\n");
  const auto config = mgtrain::check({.files = {good}}, nullptr).values();
  CHECK(config.train.epochs == 5);
  CHECK(config.optim.optimizer == "adam");
  CHECK(refusal_of_file("\xef\xbb\xbf[train]\r\nepochs = 5\r\nepochz = 6\r\n") ==
        "exp.toml:3: train.epochz: unknown key (did you mean train.epochs?)");
}
