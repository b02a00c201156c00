// run.json. What is taken must come back the same from our own writer.
#include "checkpoint/run_record.h"

#include "base/error.h"
#include "fuzz/fuzz.h"

using namespace mgtrain;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const RunRecord record = parse_run_record(fuzz::text_of(data, size), "run.json");
    for (const std::string* text : {&record.config_toml, &record.model_json, &record.dataset_fingerprint,
                                    &record.dataset_json, &record.mgtrain_version, &record.torch_version}) {
      fuzz::touch(std::string_view(*text));
    }
    fuzz::touch(record.class_names);
    for (const auto& [name, length] : record.file_lengths)
      fuzz::demand(name.find('/') == std::string::npos && name != ".." && name != ".",
                   "no file outside the run folder");
    const std::string text = render_run_record(record);
    fuzz::demand(render_run_record(parse_run_record(text, "run.json")) == text, "what is written again is the same");
  } catch (const CheckpointError& error) {
    fuzz::touch(std::string_view(error.what()));
  }
  return 0;
}
