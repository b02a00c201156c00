#include "config/toml.h"

#include "support/catch.h"

using mgtrain::read_toml;
using mgtrain::TomlDocument;

TEST_CASE("a document becomes dotted keys with their lines", "[config]") {
  const TomlDocument document = read_toml("[train]\nepochs = 5\n\n[optim]\nlr = 0.1\nmilestones = [80, \"120e\"]\n");
  REQUIRE(document.problems.empty());
  REQUIRE(document.entries.size() == 5);  // with the two sections
  CHECK(document.entries[1].key == "train.epochs");
  CHECK(document.entries[1].line == 2);
  CHECK(document.entries[1].value == mgtrain::OptionValue(int64_t{5}));
  CHECK(document.entries[3].value == mgtrain::OptionValue(0.1));
  CHECK(document.entries[4].value == mgtrain::OptionValue(std::vector<std::string>{"80", "120e"}));
  CHECK(document.entries[4].integers);
}

TEST_CASE("reading goes on after a line that is not TOML", "[config]") {
  const TomlDocument document = read_toml("[train]\nepochs = = 5\nbatch = 64\nseed = @\n\n[optim]\nlr = 0.1\n");
  REQUIRE(document.problems.size() == 2);
  CHECK(document.problems[0].line == 2);
  CHECK(document.problems[1].line == 4);
  REQUIRE(document.entries.size() == 4);
  CHECK(document.entries[1].key == "train.batch");
  CHECK(document.entries[3].key == "optim.lr");
}

TEST_CASE("an array that is never closed is one problem", "[config]") {
  CHECK(read_toml("[optim]\nmilestones = [\"80e\",\nlr = 0.1\nmomentum = 0.5\n").problems.size() == 1);
}

TEST_CASE("each duplicate key is a problem that names the first one", "[config]") {
  const TomlDocument document = read_toml("[train]\nepochs = 5\nepochs = 6\nbatch = 1\nbatch = 2\n");
  REQUIRE(document.problems.size() == 2);
  CHECK(document.problems[0].line == 3);
  CHECK(document.problems[0].key == "train.epochs");
  CHECK(document.problems[0].hint == "first in line 2");
  CHECK(document.problems[1].line == 5);
}

TEST_CASE("hostile documents are refused without harm", "[config]") {
  CHECK(read_toml("").entries.empty());
  CHECK_FALSE(read_toml(std::string("a = \"\xff\xfe\"\n")).problems.empty());
  CHECK_FALSE(read_toml(std::string("\0\0\0", 3)).problems.empty());
  CHECK_FALSE(read_toml("[[[[").problems.empty());
  CHECK_FALSE(read_toml("a = " + std::string(5000, '[')).problems.empty());
}

TEST_CASE("keys of any number of parts are refused before tables are made of them", "[config]") {
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  for (const std::string& text :
       {key + " = 1\n", "[" + key + "]\n", "x = { " + key + " = 1 }\n", "[[" + key + "]]\n"}) {
    const TomlDocument document = read_toml("[train]\n" + text);
    REQUIRE(document.problems.size() == 1);
    CHECK(document.problems[0].line == 2);
    CHECK(document.problems[0].problem == "more than 200 dots in one line");
    CHECK(document.entries.empty());
  }
}

TEST_CASE("tables in tables are read to the depth that a configuration could have", "[config]") {
  std::string key = "a";
  for (int i = 0; i < 199; ++i) key += ".a";
  const TomlDocument document = read_toml(key + " = 1\n");
  REQUIRE(document.problems.empty());
  REQUIRE(document.entries.size() == 16);
  CHECK(document.entries[14].table);
  CHECK_FALSE(document.entries[15].table);
  CHECK(document.entries[15].other == "a section this deep in others");
  // As deep as lists and tables nest, each of 200 parts.
  std::string nested;
  for (int i = 0; i < 40; ++i) nested += "[{" + key + " =\n";
  CHECK_FALSE(read_toml("x = " + nested).problems.empty());
}

TEST_CASE("a document is held to a size and to a number of keys", "[config]") {
  CHECK(read_toml("#" + std::string(1 << 20, 'x')).problems.size() == 1);
  std::string keys;
  for (int i = 0; i < 2000; ++i) keys += "k" + std::to_string(i) + " = 1\n";
  const TomlDocument document = read_toml(keys);
  REQUIRE(document.problems.size() == 1);
  CHECK(document.problems[0].problem == "more than 2000 keys");
}
