// Evaluation mode of a module for a scope.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

namespace mgtrain {

/// Afterwards each module is in the mode it was in.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& model) : parts_(model.modules()) {
    for (const auto& part : parts_) training_.push_back(part->is_training());
    model.eval();
  }
  ~EvaluationMode() {
    for (size_t i = 0; i < parts_.size(); ++i) parts_[i]->train(training_[i]);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<std::shared_ptr<torch::nn::Module>> parts_;
  std::vector<bool> training_;
};

}  // namespace mgtrain
