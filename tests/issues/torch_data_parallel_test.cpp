// Faults of LibTorch's stock data_parallel: pytorch/pytorch#21144 (BatchNorm statistics lost), and parallel_apply's
// workers, which know neither the caller's modes nor more threads than OMP_NUM_THREADS gives. Details are tested in
// tests/parallel/replication_test.cpp; here each fault once, as a user of the trainer would meet it.
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "parallel/small_net.h"
#include "support/catch.h"

namespace mgtrain::test {

TEST_CASE("pytorch#21144: BatchNorm statistics move with every step on replicas", "[issues]") {
  const SmallNetOptions net;
  const auto model = make_net(net);
  const auto strategy = make_data_parallel(model, twin_of(net), cpu_replicas(2));
  at::Tensor last = model->norm1->running_mean.clone();
  for (uint64_t i = 0; i < 3; ++i) {
    step(*strategy, make_batch(8, i));
    CHECK_FALSE(at::equal(model->norm1->running_mean, last));
    CHECK(model->norm1->num_batches_tracked.item<int64_t>() == static_cast<int64_t>(i) + 1);
    last = model->norm1->running_mean.clone();
  }
  strategy->evaluate(make_batch(8));
  CHECK(at::equal(model->norm1->running_mean, last));
}

TEST_CASE("parallel_apply: replicas have threads of their own under OMP_NUM_THREADS=1", "[issues]") {
  SmallNetOptions net;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  *net.hook = [&](const at::Tensor&) {
    const std::lock_guard<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
  };
  const auto strategy = make_data_parallel(make_net(net), twin_of(net), cpu_replicas(2));
  const int before = at::get_num_threads();
  at::set_num_threads(1);  // what OMP_NUM_THREADS=1 starts with
  step(*strategy, make_batch(4));
  at::set_num_threads(before);
  CHECK(threads.size() == 2);
}

TEST_CASE("parallel_apply: evaluation keeps no graph on any replica", "[issues]") {
  SmallNetOptions net;
  std::atomic<int> with_gradients{0}, forwards{0};
  *net.hook = [&](const at::Tensor&) {
    ++forwards;
    if (at::GradMode::is_enabled()) ++with_gradients;
  };
  const auto strategy = make_data_parallel(make_net(net), twin_of(net), cpu_replicas(3));
  strategy->evaluate(make_batch(7));
  CHECK(forwards == 3);
  CHECK(with_gradients == 0);
}

}  // namespace mgtrain::test
