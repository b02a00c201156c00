// N simulated accelerators "sim:0", "sim:1", ... on a machine without any: a back end of LibTorch's PrivateUse1 for
// tests. Each device has its own memory, which the host cannot read; operations run on the CPU, one thread at a time,
// and demand that all their tensors are on one device. What moves, waits, runs and fails can be counted and provoked.
//
// Only linked into a test program of its own, where CUDA is hidden: a PrivateUse1 back end takes CUDA's place as *the*
// accelerator of LibTorch. What it cannot show: streams and events are synchronous, so a missing synchronisation stays
// unseen; only tensors count as memory, a kernel's scratch does not.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

namespace mgtrain::sim {

inline constexpr int kMostDevices = 8;

/// Registers the back end with LibTorch. Once a process, before the first backward pass (the autograd engine starts a
/// thread a device then, and no more later). Nothing is registered before.
void enable(int devices);

c10::Device device(int index);

/// Forgets all records, injected faults, delays and caps; peaks become what is live. Memory stays as it is.
void reset();

struct Memory {
  int64_t live = 0, peak = 0;  // bytes of tensors now, and the most since the last reset
};
Memory memory(int device);
/// What would exceed `bytes` live throws c10::OutOfMemoryError naming the device. 0: no cap.
void set_cap(int device, int64_t bytes);

struct Copies {
  int64_t count = 0, bytes = 0;
  friend bool operator==(const Copies&, const Copies&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Copies& copies) {
    return out << copies.count << " x, " << copies.bytes << " bytes";
  }
};
/// Copies between two devices, or the host ("cpu"), since the last reset: "cpu > sim:0". A device's own are not
/// counted.
std::map<std::string, Copies> copies();

/// How often the host has waited for a device since the last reset.
struct Waits {
  int64_t reads = 0;   // item() and operations that need a value on the host, such as equal and nonzero
  int64_t events = 0;  // synchronisation with an event
  int64_t device = 0;  // synchronisation with the whole device or a stream
};
Waits waits(int device);

/// Operations of a device since the last reset, copies to (from, if to the host) it included.
int64_t operation_count(int device);
struct Operation {
  std::string name;  // "aten::convolution_backward"
  std::thread::id thread;
};
/// The same one by one, in the order they began. Only kept between record_operations(true) and (false).
std::vector<Operation> operations(int device);
void record_operations(bool on);

/// The n-th operation of the device from now on (1: the next) throws c10::AcceleratorError naming the device, once.
void fail_at(int device, int64_t nth);
/// The n-th operation from now on takes `delay` longer.
void delay_at(int device, int64_t nth, std::chrono::microseconds delay);

}  // namespace mgtrain::sim
