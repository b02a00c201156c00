// What mgtrain makes of one image, for comparison with Pillow and torchvision: HWC bytes on standard input, the result
// on standard output.
//   image_sample resize CHANNELS HEIGHT WIDTH TO_HEIGHT TO_WIDTH          bytes, HWC
//   image_sample augment CHANNELS HEIGHT WIDTH TO_HEIGHT TO_WIDTH PADDING FLIP NHWC EPOCH SAMPLE [MEAN... DEVIATION...]
//                                               flip, top and left as int64, then floats
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "data/augment.h"

using namespace mgtrain;

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const auto number = [&](size_t at) { return std::atoll(args.at(at).c_str()); };
  const ImageShape shape{.channels = number(1), .height = number(2), .width = number(3)};
  std::vector<uint8_t> image(static_cast<size_t>(shape.size()));
  if (std::fread(image.data(), 1, image.size(), stdin) != image.size()) return 1;
  if (args[0] == "resize") {
    const std::vector<uint8_t> out = resize_bilinear(image, shape, number(4), number(5));
    return std::fwrite(out.data(), 1, out.size(), stdout) == out.size() ? 0 : 1;
  }
  Transform transform{.input = shape,
                      .output_height = number(4),
                      .output_width = number(5),
                      .crop_padding = number(6),
                      .flip = number(7) != 0,
                      .mean = {},
                      .stddev = {},
                      .format = number(8) != 0 ? MemoryFormat::kNhwc : MemoryFormat::kNchw,
                      .seed = 9};
  const size_t means = (args.size() - 11) / 2;
  for (size_t i = 0; i < means; ++i) {
    transform.mean.push_back(std::strtof(args[11 + i].c_str(), nullptr));
    transform.stddev.push_back(std::strtof(args[11 + means + i].c_str(), nullptr));
  }
  const AugmentDraw draw = draw_augment(transform, number(9), number(10));
  const int64_t drawn[] = {draw.flip ? 1 : 0, draw.top, draw.left};
  std::vector<float> out(static_cast<size_t>(shape.channels * transform.output_height * transform.output_width));
  transform_image(transform, image, number(9), number(10), true, out.data());
  return std::fwrite(drawn, sizeof drawn, 1, stdout) == 1 &&
                 std::fwrite(out.data(), sizeof(float), out.size(), stdout) == out.size()
             ? 0
             : 1;
}
