#include "checkpoint/snapshot.h"

#include "base/error.h"
#include "checkpoint/resnet_tensors.h"
#include "checkpoint/resume.h"
#include "checkpoint/sample_checkpoint.h"
#include "support/catch.h"
#include "support/memory_file_system.h"

namespace mgtrain {
namespace {

using Catch::Matchers::Contains;

Snapshot sample_snapshot() {
  const ResNetSpec spec = make_resnet_spec("resnet18", 4, "cifar", 1, 28, 28, 10);
  Snapshot snapshot{.record = test::sample_record(10), .model = test::resnet_tensors(spec, 1)};
  for (const auto& [name, tensor] : snapshot.model) {
    if (tensor.is_floating_point()) snapshot.optimizer.emplace_back("momentum." + name, at::full_like(tensor, 0.5));
  }
  snapshot.optimizer.emplace_back("step", at::full({1}, 10.0F));
  return snapshot;
}

TEST_CASE("a snapshot that was committed comes back bit for bit", "[checkpoint]") {
  test::MemoryFileSystem files;
  CheckpointStore store(files, "/run", 2);
  const Snapshot snapshot = sample_snapshot();
  store.commit(10, checkpoint_files(snapshot));

  const auto checkpoint = resume_auto(files, "/run").checkpoint.value();
  CHECK(read_run_record(files, checkpoint) == snapshot.record);
  CHECK(test::same_tensors(read_model(files, checkpoint), snapshot.model));
  CHECK(test::same_tensors(read_optimizer_state(files, checkpoint), snapshot.optimizer));
}

TEST_CASE("the files of a snapshot are as large as they say", "[checkpoint]") {
  test::MemoryFileSystem files;
  const Snapshot snapshot = sample_snapshot();
  for (const CheckpointFile& part : checkpoint_files(snapshot)) {
    const auto file = files.create("/part");
    part.write(*file);
    INFO(part.name);
    CHECK(files.size("/part") == part.bytes);
  }
}

TEST_CASE("an optimizer without state has an empty list of tensors", "[checkpoint]") {
  test::MemoryFileSystem files;
  CheckpointStore store(files, "/run", 2);
  Snapshot snapshot = sample_snapshot();
  snapshot.optimizer.clear();
  store.commit(10, checkpoint_files(snapshot));
  CHECK(read_optimizer_state(files, store.folder_of(10)).empty());
}

TEST_CASE("state that this version does not know is not dropped in silence", "[checkpoint]") {
  test::MemoryFileSystem files;
  files.put("/c/state.safetensors", test::sample_safetensors({{"scaler.scale", 1}}, 1));
  CHECK_THROWS_WITH(read_optimizer_state(files, "/c"), Contains("holds scaler.scale, which this version"));
}

}  // namespace
}  // namespace mgtrain
