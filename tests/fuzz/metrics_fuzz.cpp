// metrics.jsonl as a resume reads it: whether it is a run's, and the evaluations so far.
#include "base/error.h"
#include "checkpoint/resume.h"
#include "fuzz/fuzz.h"
#include "observe/past_evals.h"
#include "support/memory_file_system.h"

using namespace mgtrain;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  test::MemoryFileSystem files;
  files.put("/run/metrics.jsonl", fuzz::text_of(data, size));
  fuzz::touch(is_existing_run(files, "/run") ? 1 : 0);
  for (const size_t length : {size, size / 2}) {
    const PastEvals past = past_evals(files, "/run/metrics.jsonl", length);
    fuzz::demand(!past.best || past.last, "the best evaluation is one of them");
    if (past.last) {
      fuzz::touch(past.last->step);
      for (const double accuracy : past.last->class_accuracy) fuzz::touch(accuracy);
    }
  }
  return 0;
}
