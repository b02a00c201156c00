// The back end's records, its device guard with streams and events, and its registration.
#include "support/sim_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <utility>

#include "support/sim_device_state.h"

namespace mgtrain::sim {
namespace {

std::string name_of(c10::Device device) {
  return device.is_cpu() ? "cpu" : "sim:" + std::to_string(static_cast<int>(device.index()));
}

void count_wait(c10::DeviceIndex device, int64_t Waits::*kind) {
  const std::lock_guard lock(state().mutex);
  ++(state()[device].waits.*kind);
}

/// Streams: one a device, that runs everything at once. Events: done as soon as recorded; they know their device.
class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kSim; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kSim, current_device()}; }
  void setDevice(c10::Device device) const override { current_device() = resolved(device).index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) current_device() = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, resolved(device));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return getStream(stream.device()); }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(state().devices); }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new c10::DeviceIndex(stream.device_index());
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<c10::DeviceIndex*>(event);
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) count_wait(*static_cast<c10::DeviceIndex*>(event), &Waits::events);
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    count_wait(stream.device_index(), &Waits::device);
  }
  void synchronizeDevice(c10::DeviceIndex device) const override { count_wait(device, &Waits::device); }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
  double elapsedTime(void*, void*, c10::DeviceIndex) const override { return 0; }
};

/// What LibTorch asks of an accelerator beside its kernels.
class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return Guard().deviceCount(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { current_device() = resolved({kSim, device}).index(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return Guard().exchangeDevice({kSim, device}).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  /// manual_seed() seeds it; no operator draws from it.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::detail::createCPUGenerator();
    return generator;
  }
};

DeviceRecord& record_of(int device) {
  TORCH_CHECK(device >= 0 && device < state().devices, "no device sim:", device);
  return state()[static_cast<c10::DeviceIndex>(device)];
}

}  // namespace

State& state() {
  static auto* instance = new State;  // tensors may outlive every other static object
  return *instance;
}

c10::DeviceIndex& current_device() {
  thread_local c10::DeviceIndex device = 0;
  return device;
}

c10::Device resolved(c10::Device device) {
  TORCH_CHECK(device.type() == kSim, device, " is not a simulated device");
  const c10::DeviceIndex index = device.has_index() ? device.index() : current_device();
  TORCH_CHECK(index < state().devices, "invalid device ordinal: sim:", static_cast<int>(index), " of ",
              state().devices);
  return {kSim, index};
}

void begin_operation(c10::DeviceIndex device, const std::string& name) {
  std::chrono::microseconds delay{0};
  {
    const std::lock_guard lock(state().mutex);
    DeviceRecord& record = state()[device];
    ++record.operations;
    if (state().recording) record.recorded.push_back({name, std::this_thread::get_id()});
    if (record.operations == record.delay_at) delay = record.delay;
    if (record.operations == record.fail_at) {
      record.fail_at = 0;
      throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, /*code=*/1,
                                  "sim error: injected fault on " + name_of({kSim, device}) + " in " + name);
    }
  }
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
}

void count_copy(c10::Device from, c10::Device to, int64_t bytes) {
  if (from == to) return;
  const std::lock_guard lock(state().mutex);
  Copies& copies = state().copies[name_of(from) + " > " + name_of(to)];
  ++copies.count;
  copies.bytes += bytes;
}

void enable(int devices) {
  TORCH_CHECK(state().devices == 0, "simulated devices are enabled once a process");
  TORCH_CHECK(devices > 0 && devices <= kMostDevices, "1 to ", kMostDevices, " simulated devices");
  state().devices = devices;
  c10::register_privateuse1_backend("sim");
  c10::SetAllocator(kSim, &allocator());
  static const c10::impl::DeviceGuardImplRegistrar guard(kSim, new Guard);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  register_operators();
}

c10::Device device(int index) { return {kSim, static_cast<c10::DeviceIndex>(index)}; }

void reset() {
  const std::lock_guard lock(state().mutex);
  state().copies.clear();
  state().recording = false;
  for (DeviceRecord& record : state().of) {
    const int64_t live = record.memory.live;
    record = {.memory = {.live = live, .peak = live}};
  }
}

Memory memory(int device) {
  const std::lock_guard lock(state().mutex);
  return record_of(device).memory;
}

void set_cap(int device, int64_t bytes) {
  const std::lock_guard lock(state().mutex);
  record_of(device).cap = bytes;
}

std::map<std::string, Copies> copies() {
  const std::lock_guard lock(state().mutex);
  return state().copies;
}

Waits waits(int device) {
  const std::lock_guard lock(state().mutex);
  return record_of(device).waits;
}

int64_t operation_count(int device) {
  const std::lock_guard lock(state().mutex);
  return record_of(device).operations;
}

std::vector<Operation> operations(int device) {
  const std::lock_guard lock(state().mutex);
  return record_of(device).recorded;
}

void record_operations(bool on) {
  const std::lock_guard lock(state().mutex);
  state().recording = on;
}

void fail_at(int device, int64_t nth) {
  const std::lock_guard lock(state().mutex);
  record_of(device).fail_at = record_of(device).operations + nth;
}

void delay_at(int device, int64_t nth, std::chrono::microseconds delay) {
  const std::lock_guard lock(state().mutex);
  record_of(device).delay_at = record_of(device).operations + nth;
  record_of(device).delay = delay;
}

}  // namespace mgtrain::sim
