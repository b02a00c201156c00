// Updates with gradients out of a file, for optimizer_test.py.
//   optimizer_sample IN.safetensors OUT.safetensors STEPS SPLIT CLIP KEY=VALUE...
// IN: parameters "p.<name>", gradients "g.<step>.<name>", rates "lr" [STEPS]. Keys are those of the config's section
// optim. After SPLIT steps the state goes into a new Optimizer. OUT: "p.<name>" and the state.
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/tensor_file.h"
#include "config/check.h"
#include "optim/clip.h"
#include "optim/optimizer.h"

namespace {

using namespace mgtrain;

NamedTensors copy_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.emplace_back(name, tensor.clone());
  return copies;
}

void run(const std::vector<std::string>& arguments) {
  const auto files = make_posix_file_system();
  std::map<std::string, at::Tensor> in;
  NamedTensors parameters;
  for (auto& [name, tensor] : read_safetensors(*files, arguments[0])) {
    in.emplace(name, tensor);
    if (name.starts_with("p.")) parameters.emplace_back(name.substr(2), tensor.clone().set_requires_grad(true));
  }
  const int64_t steps = std::stoll(arguments[2]), split = std::stoll(arguments[3]);
  const double max_norm = std::stod(arguments[4]);
  const std::vector<std::string> settings(arguments.begin() + 5, arguments.end());
  const OptimConfig config = check({.sets = settings}, nullptr).values().optim;
  auto optimizer = std::make_unique<Optimizer>(config, parameters);
  for (int64_t step = 0; step < steps; ++step) {
    if (step == split) {
      const NamedTensors state = copy_of(optimizer->state());
      optimizer = std::make_unique<Optimizer>(config, parameters);
      optimizer->load_state(state);
    }
    std::vector<at::Tensor> gradients;
    for (auto& [name, parameter] : parameters) {
      parameter.mutable_grad() = in.at("g." + std::to_string(step) + "." + name).clone();
      gradients.push_back(parameter.grad());
    }
    if (max_norm > 0) clip_gradients(gradients, gradient_norm(gradients), max_norm);
    optimizer->step(in.at("lr")[step].item<double>(), {});
  }
  NamedTensors out;
  for (const auto& [name, parameter] : parameters) out.emplace_back("p." + name, parameter.detach());
  for (const auto& [name, tensor] : optimizer->state()) out.emplace_back(name, tensor);
  const auto file = files->create(arguments[1]);
  write_safetensors(*file, out, {});
  file->close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return std::fputs("usage: optimizer_sample: see its first lines\n", stderr), 2;
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "optimizer_sample: %s\n", error.what()), 1;
  }
}
