// mgtrain predict: pictures in every form, their classes as a line or as JSON.
#include <png.h>

#include "end_to_end/scene.h"
#include "support/catch.h"

using namespace mgtrain;
using namespace mgtrain::test;

namespace {

/// A picture like those of class `label`: one bright quarter.
void write_picture(const std::filesystem::path& file, int label, uint32_t size) {
  std::vector<uint8_t> pixels;
  for (uint32_t y = 0; y < size; ++y)
    for (uint32_t x = 0; x < size; ++x)
      pixels.push_back((y / (size / 2)) * 2 + x / (size / 2) == static_cast<uint32_t>(label) ? 170 : 80);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = image.height = size;
  image.format = PNG_FORMAT_GRAY;
  REQUIRE(png_image_write_to_file(&image, file.c_str(), 0, pixels.data(), 0, nullptr) != 0);
}

}  // namespace

TEST_CASE("predict classifies pictures, folders and items of IDX files", "[end_to_end]") {
  const Scene scene(400, 40);
  const ProgramResult trained = scene.train("a", {"--epochs", "8", "--width", "4", "--set", "data.flip=false"});
  INFO(trained.err);
  REQUIRE(trained.exit_code == 0);
  REQUIRE(events(scene.run("a"), "eval").back().at("top1").get<double>() > 0.9);
  std::filesystem::create_directories(scene.folder() / "pictures");
  for (int label = 0; label < 4; ++label)
    write_picture(scene.folder() / "pictures" / (std::to_string(label) + ".png"), label, label % 2 == 0 ? 16 : 40);
  write_picture(scene.folder() / "large.png", 3, 64);

  const ProgramResult result = scene.mgtrain({"predict", "a", "pictures", "large.png", "data/t10k-images-idx3-ubyte:5",
                                              "--topk", "2", "--json", "--gpus", "cpu:2"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const std::vector<Json> lines = json_lines(result.out);
  REQUIRE(lines.size() == 6);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(lines[i].at("item") == "pictures/" + std::to_string(i) + ".png");
    CHECK(lines[i].at("predictions").at(0).at("class") == i);
    CHECK(lines[i].at("predictions").size() == 2);
  }
  CHECK(lines[4].at("predictions").at(0).at("name") == "3");
  CHECK(lines[5].at("item") == "data/t10k-images-idx3-ubyte:5");
  CHECK(lines[5].at("predictions").at(0).at("class") == 1);
  const ProgramResult text = scene.mgtrain({"predict", "a", "large.png"});
  CHECK(text.out.starts_with("large.png: 3 0."));

  CHECK(scene.mgtrain({"predict", "a", "missing.png"}).exit_code == 3);
  CHECK(scene.mgtrain({"predict", "a", "data/t10k-images-idx3-ubyte:40"}).exit_code == 3);
  CHECK(scene.mgtrain({"predict", "a", "data/t10k-labels-idx1-ubyte"}).exit_code == 3);
  CHECK(scene.mgtrain({"predict", "a"}).exit_code == 2);
  CHECK(scene.mgtrain({"predict", "nowhere", "large.png"}).exit_code == 4);
}
