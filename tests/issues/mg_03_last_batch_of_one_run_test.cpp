// MG 3: a run crashed after a whole epoch, because the last batch had one sample and BatchNorm cannot train on one
// value a channel. 65 images in batches of 64, on a map of 1 x 1: told at start-up; where the map is larger, it trains.
#include "end_to_end/scene.h"
#include "support/catch.h"

using namespace mgtrain::test;

namespace {

/// 65 images of 8 x 8: the last stage of the network sees 1 x 1.
void write_small_images(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const char* part : {"train", "t10k"}) {
    std::string labels, pixels;
    for (int i = 0; i < 65; ++i) labels += static_cast<char>(i % 4);
    for (int i = 0; i < 65 * 64; ++i) pixels += static_cast<char>(i % 251);
    write_idx(folder / (std::string(part) + "-images-idx3-ubyte"), {65, 8, 8}, pixels);
    write_idx(folder / (std::string(part) + "-labels-idx1-ubyte"), {65}, labels);
  }
}

}  // namespace

TEST_CASE("MG 3: a last batch of one is told before step 1, or trains", "[issues]") {
  const Scene scene(65, 10);
  write_small_images(scene.folder() / "small");
  const ProgramResult refused = scene.train("a", {"--data", "small", "--batch", "64", "--epochs", "1"});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("--drop-last") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(scene.run("a")));

  const ProgramResult dropped = scene.train("b", {"--data", "small", "--batch", "64", "--epochs", "1", "--drop-last"});
  INFO(dropped.err);
  CHECK(dropped.exit_code == 0);
  CHECK(events(scene.run("b"), "end").at(0).at("samples_seen") == 64);

  for (const char* gpus : {"cpu", "cpu:2"}) {
    const ProgramResult trained =
        scene.train(std::string("c") + gpus[3], {"--batch", "64", "--epochs", "1", "--gpus", gpus});
    INFO(trained.err);
    CHECK(trained.exit_code == 0);
    CHECK(trained.last_line().find("step=2 ") != std::string::npos);
  }
}
