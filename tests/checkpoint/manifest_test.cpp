#include "checkpoint/manifest.h"

#include "base/error.h"
#include "checkpoint/checksum.h"
#include "checkpoint/sample_checkpoint.h"
#include "support/catch.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using Catch::Matchers::Contains;

const Manifest kManifest = {{"run.json", {12, "0123456789abcdef0123456789abcdef"}},
                            {"model.safetensors", {45'000'000, "00000000000000000000000000000001"}}};

std::string with_checksum(const std::string& body) {
  Xxh3 checksum;
  checksum.update(body);
  return body + checksum.hex() + "\n";
}

TEST_CASE("a manifest is JSON and, as its last line, the checksum of all before", "[checkpoint]") {
  const std::string text = render_manifest(kManifest);
  const size_t last_line = text.rfind('\n', text.size() - 2) + 1;
  CHECK(text == with_checksum(text.substr(0, last_line)));
  CHECK(text.substr(0, last_line) ==
        "{\n\"format\": \"mgtrain checkpoint 1\",\n\"files\": {\n"
        "\"model.safetensors\": {\"bytes\": 45000000, \"xxh3_128\": \"00000000000000000000000000000001\"},\n"
        "\"run.json\": {\"bytes\": 12, \"xxh3_128\": \"0123456789abcdef0123456789abcdef\"}\n}\n}\n");
  CHECK(parse_manifest(text) == kManifest);
  CHECK(parse_manifest(render_manifest({})).empty());
}

TEST_CASE("any byte changed, added or lost makes a manifest invalid", "[checkpoint]") {
  const std::string text = render_manifest(kManifest);
  int accepted = 0;
  const auto count = [&](const std::string& mutant) {
    try {
      parse_manifest(mutant);
      ++accepted;
    } catch (const CheckpointError&) {
    }
  };
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ 1 << bit);
      count(flipped);
    }
    count(text.substr(0, i));
    count(text.substr(i + 1));
    count(text.substr(0, i) + " " + text.substr(i));
  }
  for (const char* added : {" ", "\n", "x"}) {
    count(added + text);
    count(text + added);
  }
  CHECK(accepted == 0);
}

TEST_CASE("a manifest spelled otherwise is invalid even with a right checksum", "[checkpoint]") {
  const std::string text = render_manifest(kManifest), body = text.substr(0, text.size() - 33);
  REQUIRE(parse_manifest(with_checksum(body)) == kManifest);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = body;
    other.replace(other.find(from), from.size(), to);
    return with_checksum(other);
  };
  for (const std::string& mutant : {
           with_checksum(body + "\n"),
           with_checksum(" " + body),
           with_checksum(""),
           with_checksum("[1]\n"),
           changed("checkpoint 1", "checkpoint 2"),
           changed("12", "12.0"),
           changed("12", "-12"),
           changed("12", "012"),
           changed("run.json", "../run.json"),
           changed("run.json", ".run.json"),
           changed("run.json", "manifest.json"),
           changed("run.json", "model.safetensors"),
           changed("0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789ABCDEF"),
           changed("\"format\"", "\"more\": 1, \"format\""),
       }) {
    CHECK_THROWS_AS(parse_manifest(mutant), CheckpointError);
  }
}

TEST_CASE("names that could leave the folder are no names of checkpoint files", "[checkpoint]") {
  for (const char* name : {"model.safetensors", "run.json", "a", "A-1_b"}) CHECK(is_checkpoint_file_name(name));
  for (const char* name : {"", ".", "..", ".hidden", "a/b", "a\\b", "a b", "a\n", "manifest.json", "\xc3\xa9"})
    CHECK_FALSE(is_checkpoint_file_name(name));
}

struct Committed {
  test::MemoryFileSystem files;
  std::filesystem::path folder;
  Committed() {
    CheckpointStore store(files, "/run", 2);
    store.commit(10, test::sample_checkpoint(10));
    folder = store.folder_of(10);
  }
  std::string problem() { return verify_checkpoint(files, folder); }
};

TEST_CASE("a checkpoint is verified file by file", "[checkpoint]") {
  Committed c;
  REQUIRE(c.problem().empty());
  const std::string model = c.files.get(c.folder / "model.safetensors");

  SECTION("another byte") {
    std::string damaged = model;
    damaged.back() = 'x';
    c.files.put(c.folder / "model.safetensors", damaged);
    CHECK_THAT(c.problem(), Contains("model.safetensors: XXH3-128 is ") && Contains(", manifest says "));
  }
  SECTION("another size") {
    c.files.put(c.folder / "model.safetensors", model + "x");
    CHECK(c.problem() == "model.safetensors: " + std::to_string(model.size() + 1) + " bytes, manifest says " +
                             std::to_string(model.size()));
  }
  SECTION("a file too few") {
    c.files.remove_all(c.folder / "run.json");
    CHECK(c.problem() == "run.json: missing");
  }
  SECTION("a file too many") {
    c.files.put(c.folder / "notes.txt", "mine");
    CHECK(c.problem() == "notes.txt: the manifest knows no such file");
  }
  SECTION("no manifest") {
    c.files.remove_all(c.folder / "manifest.json");
    CHECK(c.problem() == "manifest.json is missing");
  }
  SECTION("a manifest too large to be one") {
    c.files.put(c.folder / "manifest.json", std::string((1 << 20) + 1, ' '));
    CHECK(c.problem() == "manifest.json: 1048577 bytes are too many");
  }
  SECTION("a lying header under a right checksum") {
    const std::string lying = "\xff\xff\xff\xff\xff\xff\xff\x7f" + model.substr(8);
    Xxh3 checksum;
    checksum.update(lying);
    Manifest manifest = parse_manifest(c.files.get(c.folder / "manifest.json"));
    manifest["model.safetensors"] = {lying.size(), checksum.hex()};
    c.files.put(c.folder / "model.safetensors", lying);
    c.files.put(c.folder / "manifest.json", render_manifest(manifest));
    CHECK_THAT(c.problem(), Contains("not a valid safetensors file: its header is said to be"));
  }
  SECTION("a file or nothing where the folder should be") {
    CHECK(verify_checkpoint(c.files, c.folder / "run.json") == "not a folder");
    CHECK(verify_checkpoint(c.files, "/none") == "no such folder");
  }
  SECTION("a file that cannot be read") {
    c.files.fail_operation(4, EIO);
    CHECK_THAT(c.problem(), Contains("Input/output error"));
  }
}

}  // namespace
}  // namespace mgtrain
