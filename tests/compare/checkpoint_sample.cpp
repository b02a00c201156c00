// Commits a checkpoint of a ResNet18 with known values to the run folder given; checkpoint_test.py loads it into
// torchvision's and compares.
#include <ATen/Functions.h>

#include <cstdio>
#include <exception>

#include "checkpoint/resnet_tensors.h"
#include "checkpoint/sample_checkpoint.h"
#include "checkpoint/snapshot.h"

namespace {

using namespace mgtrain;

/// Values that Python can compute: element i of tensor k is (i mod 1000 + k) / 64, exact in fp32.
NamedTensors known_values(NamedTensors tensors) {
  for (size_t k = 0; k < tensors.size(); ++k) {
    at::Tensor& tensor = tensors[k].second;
    if (!tensor.is_floating_point()) continue;
    const at::Tensor index = at::arange(tensor.numel(), at::kLong).remainder(1000).add(static_cast<int64_t>(k));
    tensor.copy_(index.to(at::kFloat).div(64).reshape(tensor.sizes()));
  }
  return tensors;
}

void write_sample(const std::filesystem::path& run) {
  const auto files = make_posix_file_system();
  CheckpointStore store(*files, run, 2);
  Snapshot snapshot{.record = test::sample_record(1)};
  snapshot.model =
      known_values(test::resnet_tensors(make_resnet_spec("resnet18", 64, "imagenet", 3, 224, 224, 1000), 0));
  snapshot.optimizer = {{"momentum.fc.weight", at::full({1000, 512}, 0.5)}, {"step", at::full({1}, 7.0F)}};
  store.commit(1, checkpoint_files(snapshot));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: checkpoint_sample RUN\n", stderr), 2;
  try {
    write_sample(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "checkpoint_sample: %s\n", error.what()), 1;
  }
}
