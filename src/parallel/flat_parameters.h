// All tensors of a module as views of one buffer on one device: refreshing a replica is then one copy. Strides
// (channels-last) and dtypes are kept. Not thread-safe. The views keep the buffer alive.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mgtrain {

class FlatParameters {
 public:
  /// Moves every parameter and buffer of `module` into one new buffer on `device`; values are kept.
  FlatParameters(torch::nn::Module& module, at::Device device);

  enum class Storage { kOwn, kShared };
  /// Gives `twin`, a module of the same structure as the primary's, the primary's layout: in a buffer of its own on
  /// `device` (values copied), or as views of the primary's own storage. Throws std::logic_error, naming the tensor,
  /// if the structure differs.
  FlatParameters(torch::nn::Module& twin, const FlatParameters& primary, at::Device device, Storage storage);

  /// The whole buffer, as a uint8 vector.
  [[nodiscard]] const at::Tensor& bytes() const { return bytes_; }
  /// The part that training changes: trainable parameters, then the module's buffers. Frozen parameters follow it.
  [[nodiscard]] const at::Tensor& changing() const { return changing_; }
  /// The module's buffers alone.
  [[nodiscard]] at::Tensor buffers() const {
    return bytes_.narrow(0, buffers_offset_, changing_bytes_ - buffers_offset_);
  }
  /// Trainable parameters by their canonical names, in the module's order.
  [[nodiscard]] const std::vector<std::pair<std::string, at::Tensor>>& trainable() const { return trainable_; }

 private:
  enum class Kind { kTrainable, kBuffer, kFrozen };
  struct Slot {
    std::string name;
    Kind kind;
    at::ScalarType dtype;
    std::vector<int64_t> sizes, strides;
    int64_t offset;  // bytes
  };

  void allocate(at::Device device);
  [[nodiscard]] at::Tensor view_of(const Slot& slot) const;

  std::vector<Slot> slots_;
  int64_t buffers_offset_ = 0, changing_bytes_ = 0, total_bytes_ = 0;
  at::Tensor bytes_, changing_;
  std::vector<std::pair<std::string, at::Tensor>> trainable_;
};

}  // namespace mgtrain
