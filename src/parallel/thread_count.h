// LibTorch's intra-op thread count of the calling thread, changed for a scope.
#pragma once

#include <ATen/Parallel.h>

namespace mgtrain {

class ThreadCountGuard {
 public:
  explicit ThreadCountGuard(int threads) : before_(at::get_num_threads()) {
    if (threads != before_) at::set_num_threads(threads);
  }
  ~ThreadCountGuard() {
    if (at::get_num_threads() != before_) at::set_num_threads(before_);
  }
  ThreadCountGuard(const ThreadCountGuard&) = delete;
  ThreadCountGuard& operator=(const ThreadCountGuard&) = delete;

 private:
  int before_;
};

}  // namespace mgtrain
