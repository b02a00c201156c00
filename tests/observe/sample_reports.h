// Reports of a small imagined run, for the tests of observe/.
#pragma once

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "observe/observer.h"

namespace mgtrain {

inline StartReport sample_start() {
  return {.headline = "ResNet18 on Fashion-MNIST, 10000 images, on cpu:2",
          .start_step = 0,
          .total_steps = 1570,
          .steps_per_epoch = 157,
          .epochs = 10,
          .strategy = "dp",
          .devices = {"cpu:0", "cpu:1"},
          .global_batch = 64,
          .seed = 18446744073709551615u};
}

inline StepReport sample_step(int64_t step) {
  return {.step = step,
          .epoch = (step - 1) / 157,
          .samples_seen = step * 64,
          .loss = 2.25 / static_cast<double>(step),
          .top1 = 0.5,
          .learning_rate = 0.1,
          .images_per_second = 1234.4,
          .data_wait_seconds = 0.25,
          .forward_backward_seconds = 2.5,
          .optimizer_seconds = 0.125,
          .checkpoint_seconds = 0.5};
}

// Three classes; the second is taken for the third twice, the third for the first once; the first has no sample.
inline EvalReport sample_eval(int64_t step) {
  return {.step = step,
          .epoch = 0,
          .num_samples = 10,
          .loss = 0.75,
          .top1 = 0.7,
          .top5 = 1.0,
          .seconds = 0.5,
          .class_accuracy = {std::nan(""), 0.6, 0.8},
          .confusion = {{0, 0, 0}, {0, 3, 2}, {1, 0, 4}},
          .is_best = true};
}

inline ScalingReport sample_scaling() {
  return {.devices = 2, .step_seconds = 0.05, .one_device_seconds = 0.09, .speedup = 1.8};
}

inline EndReport sample_end() {
  return {.reason = "done",
          .exit_code = 0,
          .step = 1570,
          .epoch = 9,
          .samples_seen = 100000,
          .seconds = 81.2,
          .last_eval = sample_eval(1570),
          .best_eval = sample_eval(1570),
          .scaling = sample_scaling(),
          .mean_images_per_second = 1231.5};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace mgtrain
