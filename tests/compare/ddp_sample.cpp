// Two ranks of ResNet18 that train on batches out of a file, for ddp_test.py.
//   ddp_sample IN.safetensors OUT.safetensors STEPS float32|float64
// IN: the state by its names, and "images.<step>.<rank>", "labels.<step>.<rank>". SGD with momentum, rate 0.1, no
// decay. OUT: "grad.<name>" of the first step, and the state after the last, both of rank 0.
#include <torch/types.h>

#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/tensor_file.h"
#include "model/make_model.h"
#include "optim/optimizer.h"
#include "parallel/mesh_strategy.h"
#include "support/run_ranks.h"

namespace {

using namespace mgtrain;

constexpr int kRanks = 2;

using Record = std::map<std::string, at::Tensor>;

std::shared_ptr<ResNet> model_of(const Record& in, at::ScalarType dtype) {
  auto model = std::make_shared<ResNet>(make_resnet_spec("resnet18", 64, "cifar", 3, 16, 16, 10));
  convert_floating(*model, dtype);
  NamedTensors state;
  for (const auto& [name, tensor] : state_tensors(*model)) state.emplace_back(name, in.at(name));
  load_strictly(state, state_tensors(*model), "IN");
  return model;
}

void train(const Record& in, std::shared_ptr<ResNet> model, int64_t steps, int rank, const test::Group& group,
           NamedTensors& out) {
  MeshStrategy strategy(std::move(model), {.devices = {at::kCPU}, .device_labels = {"cpu"}, .threads = 1},
                        {.group = group});
  OptimConfig config;
  config.weight_decay = 0;
  config.nesterov = false;
  Optimizer optimizer(config, strategy.trainable_parameters());
  for (int64_t step = 0; step < steps; ++step) {
    const std::string key = std::to_string(step) + "." + std::to_string(rank);
    const Batch batch{.images = in.at("images." + key),
                      .labels = in.at("labels." + key),
                      .samples = std::vector<int64_t>(static_cast<size_t>(in.at("labels." + key).size(0)))};
    int64_t count = 0;
    for (int other = 0; other < kRanks; ++other)
      count += in.at("labels." + std::to_string(step) + "." + std::to_string(other)).size(0);
    strategy.forward_backward({&batch, 1}, count);
    if (step == 0 && rank == 0) {
      for (const auto& [name, parameter] : strategy.trainable_parameters())
        out.emplace_back("grad." + name, parameter.grad().clone());
    }
    optimizer.step(0.1, {});
  }
  if (rank != 0) return;
  for (const auto& [name, tensor] : strategy.full_state()) out.emplace_back(name, tensor.detach().clone());
}

void run(const std::vector<std::string>& arguments) {
  const auto files = make_posix_file_system();
  Record in;
  for (auto& [name, tensor] : read_safetensors(*files, arguments[0])) in.emplace(name, tensor);
  const at::ScalarType dtype = arguments[3] == "float64" ? at::kDouble : at::kFloat;
  std::vector<std::shared_ptr<ResNet>> models;
  for (int rank = 0; rank < kRanks; ++rank) models.push_back(model_of(in, dtype));
  NamedTensors out;
  test::on_ranks(kRanks, [&](int rank, const test::Group& group) {
    train(in, models[static_cast<size_t>(rank)], std::stoll(arguments[2]), rank, group, out);
  });
  const auto file = files->create(arguments[1]);
  write_safetensors(*file, out, {});
  file->close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return std::fputs("usage: ddp_sample: see its first lines\n", stderr), 2;
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "ddp_sample: %s\n", error.what()), 1;
  }
}
