// One forward and backward of a ResNet in training mode and one forward in evaluation mode, for resnet_test.py.
//   resnet_sample NAME STEM SIZE CLASSES DTYPE FORMAT IN.safetensors OUT.safetensors
// IN: the weights in torchvision's names, "images" and "labels". OUT: "loss", "logits", "eval_logits", each gradient as
// "grad.<name>", and the running statistics after the step as "after.<name>".
//   resnet_sample NAME STEM SIZE CLASSES init SEED ZERO OUT.safetensors
// OUT: the initial weights.
#include <torch/nn/functional/loss.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "checkpoint/tensor_file.h"
#include "model/make_model.h"

namespace {

using namespace mgtrain;

void write(const std::string& path, const NamedTensors& tensors) {
  const auto files = make_posix_file_system();
  const auto file = files->create(path);
  write_safetensors(*file, tensors, {});
  file->close();
}

NamedTensors state_of(const torch::nn::Module& model) {
  NamedTensors state;
  for (const auto& item : model.named_parameters()) state.emplace_back(item.key(), item.value().detach());
  for (const auto& item : model.named_buffers()) state.emplace_back(item.key(), item.value());
  return state;
}

void run_step(const ResNetSpec& spec, const std::vector<std::string>& arguments) {
  const auto files = make_posix_file_system();
  const at::ScalarType dtype = arguments[4] == "float64" ? at::kDouble : at::kFloat;
  const bool channels_last = arguments[5] == "nhwc";
  const auto model = make_model(spec, {}, /*seed=*/0, dtype, channels_last);
  NamedTensors weights;
  at::Tensor images, labels;
  for (auto& [name, tensor] : read_safetensors(*files, arguments[6])) {
    if (name == "images") {
      images = tensor;
    } else if (name == "labels") {
      labels = tensor;
    } else {
      weights.emplace_back(name, tensor);
    }
  }
  {
    const torch::NoGradGuard no_gradients;
    load_strictly(weights, state_of(*model), arguments[6]);
  }
  if (channels_last) images = images.contiguous(at::MemoryFormat::ChannelsLast);
  NamedTensors out;
  model->eval();
  {
    const torch::NoGradGuard no_gradients;
    out.emplace_back("eval_logits", model->forward(images));
  }
  model->train();
  const at::Tensor logits = model->forward(images);
  const at::Tensor loss = torch::nn::functional::cross_entropy(logits, labels);
  loss.backward();
  out.emplace_back("logits", logits.detach());
  out.emplace_back("loss", loss.detach().reshape({1}));
  for (const auto& item : model->named_parameters()) out.emplace_back("grad." + item.key(), item.value().grad());
  for (const auto& item : model->named_buffers()) out.emplace_back("after." + item.key(), item.value());
  write(arguments[7], out);
}

void run(const std::vector<std::string>& arguments) {
  const int64_t size = std::stoll(arguments[2]);
  const ResNetSpec spec = make_resnet_spec(arguments[0], 64, arguments[1], 3, size, size, std::stoll(arguments[3]));
  if (arguments[4] != "init") return run_step(spec, arguments);
  const ModelConfig config{.zero_init_residual = arguments[6] == "zero"};
  write(arguments[7], state_of(*make_model(spec, config, std::stoull(arguments[5]), at::kFloat, false)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) return std::fputs("usage: resnet_sample: see its first lines\n", stderr), 2;
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "resnet_sample: %s\n", error.what()), 1;
  }
}
