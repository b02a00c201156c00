#include "parallel/flat_parameters.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <sstream>
#include <stdexcept>

namespace mgtrain {
namespace {

// Every tensor starts where LibTorch's allocators would let it start, so that kernels which choose a path by
// alignment compute the same bits as on tensors of their own.
constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::vector<int64_t> dense_strides(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor.strides().vec() : tensor.contiguous().strides().vec();
}

}  // namespace

FlatParameters::FlatParameters(torch::nn::Module& module, at::Device device) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> tensors;
  const auto append = [&](const std::string& name, Kind kind, const at::Tensor& tensor) {
    slots_.push_back({name, kind, tensor.scalar_type(), tensor.sizes().vec(), dense_strides(tensor), total_bytes_});
    total_bytes_ += aligned(static_cast<int64_t>(tensor.nbytes()));
    tensors.push_back(tensor);
  };
  const auto parameters = module.named_parameters();
  for (const auto& item : parameters)
    if (item.value().requires_grad()) append(item.key(), Kind::kTrainable, item.value());
  buffers_offset_ = total_bytes_;
  for (const auto& item : module.named_buffers()) append(item.key(), Kind::kBuffer, item.value());
  changing_bytes_ = total_bytes_;
  for (const auto& item : parameters)
    if (!item.value().requires_grad()) append(item.key(), Kind::kFrozen, item.value());

  allocate(device);
  for (size_t i = 0; i < slots_.size(); ++i) {
    const at::Tensor view = view_of(slots_[i]);
    view.copy_(tensors[i].detach());
    tensors[i].set_data(view);
    if (slots_[i].kind == Kind::kTrainable) trainable_.emplace_back(slots_[i].name, tensors[i]);
  }
}

FlatParameters::FlatParameters(torch::nn::Module& twin, const FlatParameters& primary, at::Device device,
                               Storage storage)
    : slots_(primary.slots_),
      buffers_offset_(primary.buffers_offset_),
      changing_bytes_(primary.changing_bytes_),
      total_bytes_(primary.total_bytes_) {
  const torch::NoGradGuard no_grad;
  if (storage == Storage::kShared) {
    bytes_ = primary.bytes_;
    changing_ = primary.changing_;
  } else {
    allocate(device);
    bytes_.copy_(primary.bytes_);
  }
  const auto parameters = twin.named_parameters();
  const auto buffers = twin.named_buffers();
  if (parameters.size() + buffers.size() != slots_.size()) {
    throw std::logic_error("a replica has " + std::to_string(parameters.size() + buffers.size()) +
                           " tensors, its primary " + std::to_string(slots_.size()));
  }
  for (const Slot& slot : slots_) {
    const at::Tensor* found = (slot.kind == Kind::kBuffer ? buffers : parameters).find(slot.name);
    if (found == nullptr || found->sizes() != at::IntArrayRef(slot.sizes)) {
      std::ostringstream message;
      message << "a replica is not a twin of its primary: " << slot.name << " is " << at::IntArrayRef(slot.sizes)
              << " there, ";
      if (found == nullptr) {
        message << "missing here";
      } else {
        message << found->sizes() << " here";
      }
      throw std::logic_error(message.str());
    }
    at::Tensor tensor = *found;
    tensor.set_data(view_of(slot));
    if (slot.kind != Kind::kBuffer) tensor.set_requires_grad(slot.kind == Kind::kTrainable);
    if (slot.kind == Kind::kTrainable) trainable_.emplace_back(slot.name, tensor);
  }
}

void FlatParameters::allocate(at::Device device) {
  bytes_ = torch::zeros({total_bytes_}, torch::TensorOptions().dtype(torch::kUInt8).device(device));
  changing_ = bytes_.narrow(0, 0, changing_bytes_);
}

at::Tensor FlatParameters::view_of(const Slot& slot) const {
  // set_ rather than as_strided: a tensor of its own over the storage, not a view in autograd's sense, so that
  // torch::nn::parallel may give a replica's parameter a new history every step.
  at::Tensor tensor = torch::empty({0}, bytes_.options().dtype(slot.dtype));
  const auto element = static_cast<int64_t>(tensor.element_size());
  tensor.set_(bytes_.storage(), slot.offset / element, slot.sizes, slot.strides);
  return tensor;
}

}  // namespace mgtrain
