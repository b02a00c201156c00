#include "checkpoint/load_weights.h"

#include <ATen/core/grad_mode.h>

#include <unordered_map>

#include "checkpoint/tensor_file.h"

namespace mgtrain {

LoadedWeights load_weights(FileSystem& files, const InitOptions& options, const NamedTensors& into) {
  const WeightsFile weights = open_weights(files, options.path);
  WeightsFit fit = fit_weights(weights, options, tensor_entries(into));

  const at::NoGradGuard no_grad;
  std::unordered_map<std::string, at::Tensor> targets(into.begin(), into.end());
  for (const TensorEntry& entry : fit.match.fitting)
    targets.at(entry.name).copy_(read_tensor(files, weights.file, entry));
  for (const std::string& counter : fit.counters) targets.at(counter).zero_();

  LoadedWeights result{.file = weights.file,
                       .prefix = weights.prefix,
                       .loaded = static_cast<int64_t>(fit.match.fitting.size()),
                       .fresh = std::move(fit.match.missing),
                       .ignored = std::move(fit.match.extra)};
  result.fresh.insert(result.fresh.end(), fit.head.begin(), fit.head.end());
  return result;
}

}  // namespace mgtrain
