// IDX files, raw or gzip-compressed (told by their first bytes, as the reader does): as images, as labels, one image.
#include "data/idx.h"
#include "fuzz/bytes_as_file.h"
#include "fuzz/fuzz.h"

using namespace mgtrain;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::BytesAsFile file(data, size);
  try {
    Faults faults;
    if (const auto header = read_idx_images_header(file.path(), faults)) {
      fuzz::demand(header->count > 0 && header->height > 0 && header->width > 0, "a header that is taken has images");
      const auto pixels = read_idx_pixels(file.path(), *header, faults);
      fuzz::demand(pixels && pixels->size() == static_cast<size_t>(header->count * header->height * header->width),
                   "all pixels or a fault");
      fuzz::touch(*pixels);
      fuzz::touch(read_idx_image(file.path(), header->count - 1, 3).pixels);
      fuzz::touch(read_idx_image(file.path(), header->count, 1).pixels);  // one too far
    }
  } catch (const DataError& error) {
    fuzz::touch(std::string_view(error.what()));
  }
  Faults faults(/*collect=*/true);
  const auto labels = faults.attempt([&] { return read_idx_labels(file.path(), faults); });
  fuzz::demand(labels.has_value() == (faults.count() == 0), "labels or a fault");
  if (labels) fuzz::touch(*labels);
  for (const std::string& fault : faults.list()) fuzz::touch(std::string_view(fault));
  return 0;
}
