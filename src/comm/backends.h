// LibTorch's own back ends for ranks that found each other at a store.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace mgtrain {

/// Gloo, between the CPUs of processes. `address`: of this machine, as the other ranks reach it; "127.0.0.1" opens
/// nothing to a network. All ranks call it at the same time. Throws DeviceError for an address that is not this
/// machine's.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                    std::chrono::milliseconds timeout, const std::string& address);

/// NCCL, between GPUs: a rank each, as threads or processes. Connects at the first call. Throws DeviceError in a build
/// without CUDA.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                    std::chrono::milliseconds timeout);

}  // namespace mgtrain
