// Operators of the simulated devices: all go through one boxed function that checks the devices of the arguments and
// runs the CPU's kernel over the same memory; a few need a kernel of their own.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/DeviceGuard.h>
#include <omp.h>
#include <torch/library.h>

#include <optional>
#include <set>

#include "support/sim_device_state.h"

namespace mgtrain::sim {
namespace {

using at::Tensor;
using c10::IValue;

/// One intra-op thread, so that bits depend on no thread count: threads of the autograd engine keep theirs for life.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// Where the framework itself takes indices from the host.
const std::set<std::string> kHostIndicesAllowed = {"aten::index", "aten::index_put", "aten::index_put_",
                                                   "aten::_index_put_impl_"};
// The result is needed on the host.
const std::set<std::string> kHostReads = {"aten::_local_scalar_dense", "aten::equal", "aten::nonzero",
                                          "aten::masked_select"};

[[noreturn]] void refuse(c10::Device one, c10::Device other, const std::string& argument, const std::string& name) {
  // As CUDA's operators have it.
  throw c10::Error({__func__, __FILE__, __LINE__},
                   c10::str("Expected all tensors to be on the same device, but found at least two devices, ", one,
                            " and ", other, "! (argument '", argument, "' of ", name, ")"));
}

/// One call of an operator: its arguments as the CPU's kernel takes them, and its results as the caller does.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op), name_(op.schema().name()), arguments_(torch::jit::last(stack, op.schema().arguments().size()).vec()) {
    check_devices();
  }

  void run(torch::jit::Stack& stack) {
    std::vector<IValue> inputs;
    inputs.reserve(arguments_.size());
    for (const IValue& value : arguments_) inputs.push_back(to_host(value));
    begin_operation(device_->index(), name_);
    if (kHostReads.contains(name_)) {
      const std::lock_guard lock(state().mutex);
      ++state()[device_->index()].waits.reads;
    }
    torch::jit::drop(stack, inputs.size());
    stack.insert(stack.end(), inputs.begin(), inputs.end());
    {
      const OneThread one_thread;
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    }
    for (const auto& [simulated, host] : wrapped_) follow(simulated, host);
    const size_t count = op_.schema().returns().size();
    std::vector<IValue> results;
    for (const IValue& value : torch::jit::last(stack, count)) results.push_back(to_device(value));
    torch::jit::drop(stack, count);
    stack.insert(stack.end(), results.begin(), results.end());
  }

 private:
  /// `visit(tensor, position of the argument)` for every tensor among the arguments.
  template <typename Visit>
  void each_tensor(const Visit& visit) const {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const IValue& value = arguments_[i];
      if (value.isTensor()) {
        if (value.toTensor().defined()) visit(value.toTensor(), i);
      } else if (value.isList()) {
        for (const IValue& item : value.toListRef())
          if (item.isTensor() && item.toTensor().defined()) visit(item.toTensor(), i);
      }
    }
  }

  void check_devices() {
    const auto& formal = op_.schema().arguments();
    each_tensor([&](const Tensor& tensor, size_t i) {
      if (tensor.device().type() != kSim) return;
      if (!device_) device_ = tensor.device();
      if (*device_ != tensor.device()) refuse(*device_, tensor.device(), formal[i].name(), name_);
    });
    for (size_t i = 0; i < arguments_.size() && !device_; ++i) {
      if (arguments_[i].isDevice() && arguments_[i].toDevice().type() == kSim)
        device_ = resolved(arguments_[i].toDevice());
    }
    if (!device_) device_ = c10::Device(kSim, current_device());
    each_tensor([&](const Tensor& tensor, size_t i) {
      if (tensor.device().type() == kSim) return;
      const bool written = formal[i].alias_info() != nullptr && formal[i].alias_info()->isWrite();
      const bool number = tensor.is_cpu() && tensor.dim() == 0 && !written && arguments_[i].isTensor();
      const bool index = tensor.is_cpu() && i > 0 && kHostIndicesAllowed.contains(name_);
      if (!number && !index) refuse(*device_, tensor.device(), formal[i].name(), name_);
    });
    for (size_t i = 0; i < arguments_.size(); ++i) {
      TORCH_CHECK(formal[i].name() != "generator", name_, ": simulated devices draw no random numbers");
    }
  }

  Tensor to_host(const Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kSim) return tensor;
    Tensor host = on_host(tensor);
    wrapped_.emplace_back(tensor, host);
    storages_.emplace_back(host.storage().unsafeGetStorageImpl(), tensor.storage());
    return host;
  }

  IValue to_host(const IValue& value) {
    if (value.isTensor()) return to_host(value.toTensor());
    if (value.isDevice() && value.toDevice().type() == kSim) return c10::Device(at::kCPU);
    if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& tensor : value.toTensorVector()) list.push_back(to_host(tensor));
      return list;
    }
    if (value.isList() && value.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
      c10::List<std::optional<Tensor>> list;
      for (const IValue& item : value.toListRef())
        list.push_back(item.isNone() ? std::nullopt : std::optional(to_host(item.toTensor())));
      return list;
    }
    return value;
  }

  Tensor to_device(const Tensor& host) {
    if (!host.defined() || !host.is_cpu()) return host;
    for (const auto& [simulated, wrapper] : wrapped_)
      if (wrapper.is_same(host)) return simulated;  // of operators that work in place
    c10::StorageImpl* storage = host.storage().unsafeGetStorageImpl();
    for (const auto& [known, simulated] : storages_)
      if (known == storage) return on_device(host, simulated);  // a view
    c10::Storage adopted = adopt(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage), device_->index());
    storages_.emplace_back(storage, adopted);
    return on_device(host, adopted);
  }

  IValue to_device(const IValue& value) {
    if (value.isTensor()) return to_device(value.toTensor());
    if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& tensor : value.toTensorVector()) list.push_back(to_device(tensor));
      return list;
    }
    return value;
  }

  /// Operators with `out` arguments, and resize_, change shapes and memory.
  static void follow(const Tensor& simulated, const Tensor& host) {
    follow_host(simulated.storage());
    if (simulated.sizes() == host.sizes() && simulated.strides() == host.strides() &&
        simulated.storage_offset() == host.storage_offset())
      return;
    simulated.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
  }

  const c10::OperatorHandle& op_;
  const std::string& name_;
  const std::vector<IValue> arguments_;
  std::optional<c10::Device> device_;
  std::vector<std::pair<Tensor, Tensor>> wrapped_;                    // simulated, on the host
  std::vector<std::pair<c10::StorageImpl*, c10::Storage>> storages_;  // on the host, simulated
};

void any_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) { Call(op, *stack).run(*stack); }

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(resolved(device.value_or(c10::Device(kSim))));
  return at::detail::empty_generic(sizes, &allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(resolved(device.value_or(c10::Device(kSim))));
  return at::detail::empty_strided_generic(sizes, strides, &allocator(), kKeys, c10::dtype_or_default(dtype));
}

/// Between any two of the host and the devices.
Tensor copy_from(const Tensor& from, const Tensor& to, bool /*non_blocking*/) {
  const c10::Device device = to.is_cpu() ? from.device() : to.device();
  begin_operation(device.index(), "aten::copy_");
  count_copy(from.device(), to.device(), static_cast<int64_t>(from.numel() * from.element_size()));
  const OneThread one_thread;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  (to.is_cpu() ? to : on_host(to)).copy_(from.is_cpu() ? from : on_host(from));
  return to;
}

Tensor& set_storage(Tensor& self, at::Storage storage, int64_t offset, c10::IntArrayRef sizes,
                    c10::IntArrayRef strides) {
  if (storage.device() != self.device()) refuse(self.device(), storage.device(), "source", "aten::set_");
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  self.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return self;
}

bool same_kind_of_tensor(const Tensor&, const Tensor&) { return true; }

}  // namespace

void register_operators() {
  static auto* all = new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFromBoxedFunction<&any_operator>());
  static auto* own =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  own->impl("empty.memory_format", TORCH_FN(empty));
  own->impl("empty_strided", TORCH_FN(empty_strided));
  own->impl("_copy_from", TORCH_FN(copy_from));
  own->impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  own->impl("_has_compatible_shallow_copy_type", TORCH_FN(same_kind_of_tensor));  // Module::to and set_data ask
  // Composite otherwise: a convolution that demands a kernel of the back end's own.
  own->impl("convolution", torch::CppFunction::makeFromBoxedFunction<&any_operator>());
  own->impl("convolution_backward", torch::CppFunction::makeFromBoxedFunction<&any_operator>());
}

}  // namespace mgtrain::sim
