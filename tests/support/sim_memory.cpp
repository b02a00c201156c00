// Memory of the simulated devices: allocation with a cap, and addresses that the host cannot read.
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "support/sim_device_state.h"

namespace mgtrain::sim {
namespace {

struct Block {
  c10::intrusive_ptr<c10::StorageImpl> host;
  c10::DeviceIndex device;
  int64_t bytes;
};

void charge(c10::DeviceIndex device, int64_t bytes) {
  const std::lock_guard lock(state().mutex);
  DeviceRecord& record = state()[device];
  TORCH_CHECK_WITH(OutOfMemoryError, record.cap == 0 || bytes <= 0 || record.memory.live + bytes <= record.cap,
                   "sim out of memory. Tried to allocate ", bytes, " bytes on sim:", static_cast<int>(device),
                   ", which has ", record.cap, " bytes in all, of which ", record.memory.live, " are in use");
  record.memory.live += bytes;
  record.memory.peak = std::max(record.memory.peak, record.memory.live);
}

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  charge(block->device, -block->bytes);
  delete block;
}

// A device address is the host's with a bit set that makes it non-canonical on x86-64 and arm64: as unique and as
// aligned, but reading it ends the process, as reading a GPU's does.
constexpr uintptr_t kDeviceBit = uintptr_t{1} << 62;
void* device_address(void* host) {
  return host == nullptr ? nullptr : reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(host) | kDeviceBit);
}
void* host_address(const void* device) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(device) & ~kDeviceBit);
}

/// Memory that is charged already.
c10::DataPtr device_pointer(c10::intrusive_ptr<c10::StorageImpl> host, c10::DeviceIndex device) {
  const auto bytes = static_cast<int64_t>(host->nbytes());
  void* address = device_address(host->mutable_data());
  return {address, new Block{std::move(host), device, bytes}, &release, {kSim, device}};
}

class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex device = current_device();
    charge(device, static_cast<int64_t>(bytes));  // first: a cap is met before memory is touched
    return device_pointer(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                                c10::GetCPUAllocator(), /*resizable=*/true),
                          device);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(host_address(to), host_address(from), bytes);
  }
};

Block& block_of(const c10::Storage& storage) {
  const c10::DataPtr& pointer = storage.data_ptr();
  TORCH_CHECK(pointer.get_deleter() == &release, "a storage that is not of the simulated devices");
  return *static_cast<Block*>(pointer.get_context());
}

}  // namespace

c10::Allocator& allocator() {
  static Allocator instance;
  return instance;
}

const c10::intrusive_ptr<c10::StorageImpl>& host_storage(const c10::Storage& storage) { return block_of(storage).host; }

c10::Storage adopt(c10::intrusive_ptr<c10::StorageImpl> host, c10::DeviceIndex device) {
  const size_t bytes = host->nbytes();
  charge(device, static_cast<int64_t>(bytes));
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                               device_pointer(std::move(host), device), &allocator(),
                                               /*resizable=*/true);
}

void follow_host(const c10::Storage& storage) {
  const Block& block = block_of(storage);
  const auto bytes = static_cast<int64_t>(block.host->nbytes());
  if (bytes == block.bytes && device_address(block.host->mutable_data()) == storage.data()) return;
  const c10::DeviceIndex device = block.device;
  charge(device, bytes);  // the old block gives back its own
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(device_pointer(block.host, device));
  storage.unsafeGetStorageImpl()->set_nbytes(static_cast<size_t>(bytes));
}

at::Tensor on_host(const at::Tensor& simulated) {
  TORCH_CHECK(simulated.layout() == at::kStrided, "simulated devices have strided tensors only");
  at::Tensor host = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(host_storage(simulated.storage())), c10::DispatchKeySet(c10::DispatchKey::CPU), simulated.dtype());
  host.unsafeGetTensorImpl()->set_sizes_and_strides(simulated.sizes(), simulated.strides(), simulated.storage_offset());
  if (simulated.unsafeGetTensorImpl()->is_wrapped_number()) host.unsafeGetTensorImpl()->set_wrapped_number(true);
  return host;
}

at::Tensor on_device(const at::Tensor& host, const c10::Storage& storage) {
  at::Tensor simulated = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), host.dtype());
  simulated.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
  return simulated;
}

}  // namespace mgtrain::sim
