// What mgtrain decodes from a PNG, for comparison with Pillow: png_sample FILE CHANNELS writes HWC bytes to stdout.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "data/decode_png.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::ifstream file(argv[1], std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const mgtrain::Picture picture = mgtrain::decode_png(std::as_bytes(std::span(bytes)), argv[1], std::atoi(argv[2]));
  return std::fwrite(picture.pixels.data(), 1, picture.pixels.size(), stdout) == picture.pixels.size() ? 0 : 1;
}
