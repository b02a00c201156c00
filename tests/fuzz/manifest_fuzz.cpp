// manifest.json: the bytes as they are, and with the checksum that someone who means harm would put behind them; then
// a checkpoint folder that has this manifest.
#include "checkpoint/manifest.h"

#include "base/error.h"
#include "checkpoint/checksum.h"
#include "checkpoint/resume.h"
#include "fuzz/fuzz.h"
#include "support/memory_file_system.h"

using namespace mgtrain;

namespace {

std::string checksum_of(const std::string& text) {
  Xxh3 checksum;
  checksum.update(text);
  return checksum.hex();
}

void read(const std::string& text) {
  test::MemoryFileSystem files;
  files.put("/c/manifest.json", text);
  const std::string problem = checkpoint_problem(files, "/c");
  fuzz::touch(std::string_view(problem));
  fuzz::demand(!problem.empty(), "a folder of a manifest alone is no checkpoint");
  try {
    Manifest manifest = parse_manifest(text);
    fuzz::demand(render_manifest(manifest) == text, "a manifest has one spelling");
    for (auto& [name, entry] : manifest) {
      fuzz::demand(is_checkpoint_file_name(name) && name.find('/') == std::string::npos, "no file outside the folder");
      const std::string content = "content of " + name;
      files.put("/c/" + name, content);
      entry = {content.size(), checksum_of(content)};
    }
    files.put("/c/manifest.json", render_manifest(manifest));
    const std::string now = verify_checkpoint(files, "/c");
    bool tensors = false;
    for (const auto& [name, entry] : manifest) tensors |= name.ends_with(".safetensors");
    fuzz::demand(now.empty() != tensors, "a folder that matches its manifest is whole, but for files of no tensors");
  } catch (const CheckpointError& error) {
    fuzz::touch(std::string_view(error.what()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text = fuzz::text_of(data, size);
  read(text);
  read(text + checksum_of(text) + "\n");
  return 0;
}
