// What a user may decide about a run, one struct a section. Defaults stand here; help, units, ranges and the
// spelling of keys and flags stand in options.cpp, the one table. A component takes its own section only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/every.h"

namespace mgtrain {

struct DataConfig {
  std::string path;                   // folder or "synthetic:SHAPE"; empty: the embedded data set
  std::string format = "auto";        // auto, idx, cifar10, cifar100, synthetic
  std::string labels = "fine";        // fine or coarse: which label of CIFAR-100
  std::string val = "auto";           // auto (the set's own test part), none, "10%" held out, or another path
  bool drop_last = false;             // drop the last partial batch of an epoch
  int64_t resize = 0;                 // pixels; 0: as stored
  int64_t crop_padding = 0;           // pixels of zero padding around before a random crop to the same size
  bool flip = true;                   // random horizontal flip, probability 0.5
  std::string normalize = "dataset";  // dataset, none, or "mean,...;std,..." in units of [0, 1]
  int64_t workers = 1;                // decoding and augmenting threads; 0: in the training thread
  int64_t prefetch = 4;               // batches held ready
};

struct ModelConfig {
  std::string name = "resnet18";    // resnet18, 34, 50, 101, 152
  int64_t width = 64;               // channels of the first stage; 64 is the standard net
  std::string stem = "auto";        // auto, cifar, imagenet
  bool zero_init_residual = false;  // zero the scale of each block's last BatchNorm
  std::string init;                 // weights to start from: safetensors file, checkpoint or run folder
  bool reset_head = false;          // with init: a new classification layer
  bool allow_missing = false;       // with init: tensors the file lacks keep their random values
  std::vector<std::string> freeze;  // name prefixes of parameters that do not train
};

struct OptimConfig {
  std::string optimizer = "sgd";  // sgd, adam, adamw
  std::optional<double> lr;       // unset: 0.1 for sgd, 0.001 for adam and adamw
  std::string lr_scale = "none";  // none or "linear:256": lr * batch / 256
  double momentum = 0.9;          // sgd
  bool nesterov = true;           // sgd
  double beta1 = 0.9;             // adam, adamw
  double beta2 = 0.999;           // adam, adamw
  double eps = 1e-8;              // adam, adamw
  double weight_decay = 5e-4;
  bool decay_norms = true;                    // apply weight decay to norm parameters and biases too
  std::string schedule = "cosine";            // constant, step, multistep, cosine, onecycle
  Every warmup;                               // linear, from 0 (exclusive) to the schedule's rate
  Every step_size{30, Every::Unit::kEpochs};  // step: period of decay
  std::vector<std::string> milestones;        // multistep: periods such as "80e"
  double gamma = 0.1;                         // step, multistep: factor
  double min_lr = 0;                          // cosine: the rate at the end
  double onecycle_start = 25;                 // onecycle: peak / first rate (div_factor)
  double onecycle_end = 1e4;                  // onecycle: first / last rate (final_div_factor)
  double onecycle_rise = 0.3;                 // onecycle: share of the run spent rising (pct_start)
  double label_smoothing = 0;
  double clip_grad = 0;  // maximum global L2 norm of the gradient; 0: none
};

struct TrainConfig {
  int64_t epochs = 10;
  int64_t steps = 0;        // 0: no limit; the first of epochs and steps ends the run
  int64_t batch = 128;      // samples an optimizer update, over all devices and accumulation steps
  int64_t micro_batch = 0;  // samples of one device's share run at once; 0: derive from accumulate
  int64_t accumulate = 1;   // pieces a batch is run in
  uint64_t seed = 0;
  std::string dtype = "float32";       // float32, or float64 to verify numerics
  std::string memory_format = "auto";  // auto, nchw, nhwc
  bool deterministic = false;          // only algorithms that repeat bit for bit, or an error
  std::string on_nan = "stop";         // stop (exit 6)
  Every eval_every{1, Every::Unit::kEpochs};
  std::optional<double> time_limit_minutes;
  int64_t early_stop = 0;            // evaluations without a better metric before stopping; 0: never
  std::vector<std::string> asserts;  // "val.top1>=0.93", checked at the end
};

struct DevicesConfig {
  std::string gpus = "auto";
  std::string primary;                // an item of gpus; empty: the first
  std::string missing_gpus = "auto";  // auto, error, skip
  bool allow_duplicates = false;      // tests only: the same GPU twice in dp
};

struct ParallelConfig {
  std::string strategy = "auto";    // auto, single, dp, ddp
  bool sync_bn = false;             // ddp: BatchNorm in training over the samples of all ranks
  std::string grad_dtype = "auto";  // ddp: auto (the model's), bf16: what gradients travel as
  double timeout = 600;             // ddp: seconds a rank waits for the others
  std::string rdzv;                 // where the ranks of several processes meet, HOST:PORT; empty: as the launcher says
  int64_t rank = -1;                // of this process; -1: as the launcher says
  int64_t world = 0;                // ranks in all; 0: as the launcher says
};

struct CheckpointConfig {
  Every save_every{1, Every::Unit::kEpochs};
  int64_t keep = 3;               // newest step-* folders kept, at least 2
  std::string best = "val.top1";  // metric that decides best/: val.top1, val.top5 or val.loss
};

struct OutputConfig {
  Every log_every{50, Every::Unit::kSteps};
  std::string log_level = "info";  // debug, info, warning, error
  bool trace_samples = false;      // write the order of samples to samples.txt in the run folder
  bool tensorboard = true;
};

struct RunConfig {
  DataConfig data;
  ModelConfig model;
  OptimConfig optim;
  TrainConfig train;
  DevicesConfig devices;
  ParallelConfig parallel;
  CheckpointConfig checkpoint;
  OutputConfig output;
};

}  // namespace mgtrain
