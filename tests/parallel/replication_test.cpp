// What replication costs, and the faults of torch's stock data_parallel that it must not have.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/error.h"
#include "parallel/data_parallel.h"
#include "parallel/small_net.h"
#include "support/catch.h"

namespace mgtrain::test {
namespace {

struct Replicas {
  explicit Replicas(size_t count, SmallNetOptions options = {}) : net(options), model(make_net(options)) {
    strategy = std::make_unique<DataParallel>(model, twin_of(options), cpu_replicas(count));
  }
  SmallNetOptions net;
  std::shared_ptr<SmallNet> model;
  std::unique_ptr<DataParallel> strategy;
};

/// Bytes of parameters and buffers, each rounded up to 64.
int64_t flat_bytes(const torch::nn::Module& module) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : module.parameters()) bytes += (static_cast<int64_t>(tensor.nbytes()) + 63) / 64 * 64;
  for (const at::Tensor& tensor : module.buffers()) bytes += (static_cast<int64_t>(tensor.nbytes()) + 63) / 64 * 64;
  return bytes;
}

void update(SmallNet& model) {
  const torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : model.parameters())
    if (parameter.grad().defined()) parameter.sub_(parameter.grad(), 0.1);
}

/// Counts, in any thread, the calls of aten::copy_ whose target has a given number of bytes.
class CopyObserver {
 public:
  explicit CopyObserver(int64_t bytes) {
    wanted() = bytes;
    seen() = 0;
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& fn) -> std::unique_ptr<at::ObserverContext> {
          if (std::string(fn.name()) == "aten::copy_" && fn.inputs()[0].isTensor() &&
              static_cast<int64_t>(fn.inputs()[0].toTensor().nbytes()) == wanted())
            ++seen();
          return nullptr;
        }).needsInputs(true));
  }
  ~CopyObserver() { at::removeCallback(handle_); }
  CopyObserver(const CopyObserver&) = delete;
  CopyObserver& operator=(const CopyObserver&) = delete;
  static std::atomic<int64_t>& seen() {
    static std::atomic<int64_t> count;
    return count;
  }

 private:
  static std::atomic<int64_t>& wanted() {
    static std::atomic<int64_t> bytes;
    return bytes;
  }
  at::CallbackHandle handle_;
};

}  // namespace

TEST_CASE("a step copies the weights once to each device but the primary", "[parallel]") {
  const size_t count = GENERATE(2u, 4u);
  const auto others = static_cast<int64_t>(count) - 1;
  Replicas replicas(count);
  step(*replicas.strategy, make_batch(16));
  update(*replicas.model);
  const ReplicationCost before = replicas.strategy->replication();
  {
    const CopyObserver observer(flat_bytes(*replicas.model));
    step(*replicas.strategy, make_batch(16, 1));
    CHECK(observer.seen() == others);
  }
  CHECK(replicas.strategy->replication().copies - before.copies == others);
  CHECK(replicas.strategy->replication().bytes - before.bytes == others * flat_bytes(*replicas.model));
}

TEST_CASE("micro-batches and evaluation batches cost no further copy", "[parallel]") {
  Replicas replicas(2);
  const std::vector<Batch> micro{make_batch(4), make_batch(4, 1), make_batch(4, 2)};
  step(*replicas.strategy, micro[0]);
  update(*replicas.model);
  const int64_t before = replicas.strategy->replication().copies;
  replicas.strategy->forward_backward(micro, 12);
  CHECK(replicas.strategy->replication().copies == before + 1);
  update(*replicas.model);
  for (uint64_t i = 0; i < 3; ++i) replicas.strategy->evaluate(make_batch(6, i));
  CHECK(replicas.strategy->replication().copies == before + 2);
}

TEST_CASE("weights written in any way reach the replicas before they are used", "[parallel]") {
  Replicas replicas(2);
  const Batch batch = make_batch(6);
  const auto single_loss = [&] {
    const auto alone = make_net(replicas.net);
    const torch::NoGradGuard no_grad;
    double loss = 0;
    const auto copy = replicas.model->named_parameters();
    for (auto& item : alone->named_parameters()) item.value().copy_(copy[item.key()]);
    for (int64_t half : {0, 1}) {
      loss += at::cross_entropy_loss(alone->forward(batch.images.narrow(0, 3 * half, 3)),
                                     batch.labels.narrow(0, 3 * half, 3), {}, at::Reduction::Sum)
                  .item<double>();
    }
    return loss;
  };
  const double first = step(*replicas.strategy, batch).loss_sum.item<double>();
  const at::Tensor before = replicas.strategy->evaluate(batch).logits_NK;
  const auto moved_on_replica_1 = [&] {  // which had the last 3 of the 6 samples
    const at::Tensor after = replicas.strategy->evaluate(batch).logits_NK;
    return relative_difference(after.narrow(0, 3, 3), before.narrow(0, 3, 3)) > 1e-3;
  };
  SECTION("by operations in place, between two evaluations") {
    update(*replicas.model);
    CHECK(moved_on_replica_1());
  }
  SECTION("by a fused kernel, after an evaluation") {
    std::vector<at::Tensor> parameters = replicas.model->parameters(), gradients, momenta;
    for (const at::Tensor& parameter : parameters) {
      gradients.push_back(parameter.grad());
      momenta.push_back(at::zeros_like(parameter));
    }
    const torch::NoGradGuard no_grad;
    at::_fused_sgd_(parameters, gradients, momenta, /*weight_decay=*/0, /*momentum=*/0.9, /*lr=*/0.1,
                    /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/true);
  }
  SECTION("by loading a state, said by state_changed") {
    {
      const torch::NoGradGuard no_grad;
      for (auto& [name, tensor] : replicas.strategy->full_state())
        if (tensor.is_floating_point()) tensor.detach().data().mul_(1.25);
    }
    replicas.strategy->state_changed();
    CHECK(moved_on_replica_1());
  }
  const double expected = single_loss();
  CHECK(std::abs(expected - first) > 1e-3);
  CHECK(step(*replicas.strategy, batch).loss_sum.item<double>() == Approx(expected).epsilon(1e-6));
}

TEST_CASE("a twin is built once a device, not once a step", "[parallel]") {
  const SmallNetOptions net;
  const auto model = make_net(net);
  int built = 0;
  DataParallel strategy(
      model, [&] { return ++built, std::make_shared<SmallNet>(net); }, cpu_replicas(3));
  for (uint64_t i = 0; i < 4; ++i) {
    step(strategy, make_batch(9, i));
    update(*model);
    strategy.evaluate(make_batch(9, i));
  }
  CHECK(built == 3);
}

TEST_CASE("all tensors of the primary are views of one buffer, in their own strides and at aligned addresses",
          "[parallel]") {
  const bool channels_last = GENERATE(false, true);
  const SmallNetOptions net;
  const auto model = make_net(net, channels_last), before = make_net(net, channels_last);
  model->fc->bias.set_requires_grad(false);
  const auto strategy = make_data_parallel(model, twin_of(net), cpu_replicas(2, channels_last));
  const auto state = strategy->full_state();
  for (const auto& [name, tensor] : state) {
    INFO(name);
    CHECK(tensor.storage().data() == state[0].second.storage().data());
    CHECK(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64 == 0);
    const at::Tensor* expected = before->named_parameters().find(name);
    if (expected == nullptr) continue;
    CHECK(tensor.strides() == expected->strides());
    CHECK(at::equal(tensor, *expected));
  }
}

TEST_CASE("BatchNorm statistics of replica 0 are the primary's and survive", "[parallel]") {
  Replicas replicas(2);
  const Batch batch = make_batch(12);
  step(*replicas.strategy, batch);
  CHECK(replicas.model->norm1->num_batches_tracked.item<int64_t>() == 1);
  const auto alone = make_net(replicas.net);
  alone->forward(batch.images.narrow(0, 0, 6));
  CHECK(at::equal(replicas.model->norm1->running_mean, alone->norm1->running_mean));
  CHECK(at::equal(replicas.model->norm2->running_var, alone->norm2->running_var));
  CHECK(replicas.model->norm2->running_mean.abs().max().item<float>() > 0);
}

TEST_CASE("evaluation uses the primary's statistics on every replica", "[parallel]") {
  Replicas replicas(3);
  for (uint64_t i = 0; i < 3; ++i) step(*replicas.strategy, make_batch(12, i));
  const Batch batch = make_batch(10, 9);
  const at::Tensor logits = replicas.strategy->evaluate(batch).logits_NK;
  replicas.model->eval();
  const torch::NoGradGuard no_grad;
  CHECK(relative_difference(logits, replicas.model->forward(batch.images)) < 1e-6);
}

TEST_CASE("replication draws no random number, even if building a twin would", "[parallel]") {
  const SmallNetOptions net;
  const auto model = make_net(net);
  const at::Tensor weight = model->fc->weight.clone();
  const auto state = [] { return at::detail::getDefaultCPUGenerator().get_state(); };
  const Batch batch = make_batch(8);
  const at::Tensor before = state();
  const auto strategy = make_data_parallel(model, twin_of(net), cpu_replicas(4));
  CHECK(at::equal(state(), before));
  CHECK(at::equal(model->fc->weight, weight));
  step(*strategy, batch);
  strategy->evaluate(batch);
  CHECK(at::equal(state(), before));
}

TEST_CASE("frozen parameters get no gradient and stay frozen in the replicas", "[parallel]") {
  const SmallNetOptions net;
  const auto model = make_net(net);
  model->conv1->weight.set_requires_grad(false);
  model->norm1->weight.set_requires_grad(false);
  const auto strategy = std::make_unique<DataParallel>(model, twin_of(net), cpu_replicas(2));
  const Batch batch = make_batch(8);
  step(*strategy, batch);
  for (const auto& item : model->named_parameters()) {
    INFO(item.key());
    const bool frozen = item.key() == "conv1.weight" || item.key() == "norm1.weight";
    CHECK(item.value().grad().defined() == !frozen);
  }
  CHECK(strategy->trainable_parameters().size() == model->parameters().size() - 2);

  SECTION("nothing before a trainable parameter is differentiated") {
    std::atomic<int> with_history{0};
    model->norm1->bias.set_requires_grad(false);
    const auto frozen_stem = std::make_unique<DataParallel>(model, twin_of(net), cpu_replicas(2));
    std::atomic<int> backward_convolutions{0};
    static std::atomic<int>* count = nullptr;
    count = &backward_convolutions;
    const auto handle = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& fn) -> std::unique_ptr<at::ObserverContext> {
          if (std::string(fn.name()) == "aten::convolution_backward") ++*count;
          return nullptr;
        }));
    step(*frozen_stem, batch);
    at::removeCallback(handle);
    CHECK(backward_convolutions == 2);  // conv2 on two replicas, and conv1 on none
  }
  SECTION("a frozen parameter that is loaded anew reaches the replicas") {
    {
      const torch::NoGradGuard no_grad;
      model->conv1->weight.mul_(2);
    }
    strategy->state_changed();
    const at::Tensor logits = strategy->evaluate(batch).logits_NK;
    model->eval();
    CHECK(relative_difference(logits, model->forward(batch.images)) < 1e-6);
  }
}

TEST_CASE("each module's train or eval mode is carried to the replicas and kept by evaluation", "[parallel]") {
  Replicas replicas(2);
  replicas.model->norm1->eval();
  const Batch batch = make_batch(8);
  replicas.strategy->evaluate(batch);
  CHECK(replicas.model->is_training());
  CHECK_FALSE(replicas.model->norm1->is_training());
  const StepSums sums = step(*replicas.strategy, batch);
  CHECK(replicas.model->norm1->num_batches_tracked.item<int64_t>() == 0);
  CHECK(replicas.model->norm2->num_batches_tracked.item<int64_t>() == 1);
  // Replica 1 in another mode would give its half of the samples another loss.
  const auto alone = make_net(replicas.net);
  alone->norm1->eval();
  double loss = 0;
  for (int64_t half : {0, 1}) {
    loss += at::cross_entropy_loss(alone->forward(batch.images.narrow(0, 4 * half, 4)),
                                   batch.labels.narrow(0, 4 * half, 4), {}, at::Reduction::Sum)
                .item<double>();
  }
  CHECK(sums.loss_sum.item<double>() == Approx(loss).epsilon(1e-6));
}

namespace {

/// What a replica's forward saw of the state of its thread.
struct Seen {
  std::thread::id thread;
  bool grad_mode, autocast;
  at::ScalarType autocast_dtype;
  int64_t samples;
};

struct Recorder {
  std::mutex mutex;
  std::vector<Seen> seen;
  SmallNetOptions net;

  Recorder() {
    *net.hook = [this](const at::Tensor& images) {
      const std::lock_guard<std::mutex> lock(mutex);
      seen.push_back({std::this_thread::get_id(), at::GradMode::is_enabled(),
                      at::autocast::is_autocast_enabled(at::kCPU), at::autocast::get_autocast_dtype(at::kCPU),
                      images.size(0)});
    };
  }
  std::set<std::thread::id> threads() const {
    std::set<std::thread::id> ids;
    for (const Seen& s : seen) ids.insert(s.thread);
    return ids;
  }
};

struct Autocast {
  explicit Autocast(at::ScalarType dtype) : before(at::autocast::get_autocast_dtype(at::kCPU)) {
    at::autocast::set_autocast_dtype(at::kCPU, dtype);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::set_autocast_dtype(at::kCPU, before);
    at::autocast::clear_cache();
  }
  at::ScalarType before;
};

}  // namespace

TEST_CASE("every replica runs in a thread of its own, also when one intra-op thread is set", "[parallel][threads]") {
  const size_t count = GENERATE(2u, 4u);
  Recorder recorder;
  Replicas replicas(count, recorder.net);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  step(*replicas.strategy, make_batch(8));
  CHECK(recorder.threads().size() == count);
  CHECK(at::get_num_threads() == 1);
  recorder.seen.clear();
  replicas.strategy->evaluate(make_batch(8));
  CHECK(recorder.threads().size() == count);
  at::set_num_threads(before);
}

TEST_CASE("no-grad and autocast are carried into the workers and out of them again", "[parallel]") {
  Recorder recorder;
  Replicas replicas(3, recorder.net);
  replicas.strategy->evaluate(make_batch(6));
  REQUIRE(recorder.seen.size() == 3);
  for (const Seen& seen : recorder.seen) {
    CHECK_FALSE(seen.grad_mode);
    CHECK_FALSE(seen.autocast);
  }
  CHECK(at::GradMode::is_enabled());

  recorder.seen.clear();
  {
    const Autocast autocast(at::kHalf);
    CHECK(replicas.strategy->evaluate(make_batch(6)).logits_NK.scalar_type() == at::kHalf);
    step(*replicas.strategy, make_batch(6));
  }
  REQUIRE(recorder.seen.size() == 6);
  for (const Seen& seen : recorder.seen) {
    CHECK(seen.autocast);
    CHECK(seen.autocast_dtype == at::kHalf);
  }
  recorder.seen.clear();
  step(*replicas.strategy, make_batch(6));
  REQUIRE(recorder.seen.size() == 3);
  for (const Seen& seen : recorder.seen) {
    CHECK(seen.grad_mode);
    CHECK_FALSE(seen.autocast);
  }
}

TEST_CASE("a batch smaller than the number of devices uses as many as it has samples", "[parallel]") {
  const int64_t samples = GENERATE(1, 2, 3);
  Recorder recorder;
  Replicas replicas(4, recorder.net);
  const StepSums sums = step(*replicas.strategy, make_batch(samples));
  REQUIRE(recorder.seen.size() == static_cast<size_t>(samples));
  for (const Seen& seen : recorder.seen) CHECK(seen.samples == 1);
  CHECK(std::isfinite(sums.loss_sum.item<double>()));
  CHECK(replicas.strategy->evaluate(make_batch(samples)).logits_NK.size(0) == samples);
}

TEST_CASE("an uneven batch is cut into shares that differ by one at most", "[parallel]") {
  Recorder recorder;
  Replicas replicas(4, recorder.net);
  step(*replicas.strategy, make_batch(5));
  std::multiset<int64_t> shares;
  for (const Seen& seen : recorder.seen) shares.insert(seen.samples);
  CHECK(shares == std::multiset<int64_t>{1, 1, 1, 2});  // Tensor::chunk would make 2, 2, 1
}

TEST_CASE("a failing replica is named with its share, and the next step is as if nothing had been", "[parallel]") {
  SmallNetOptions net{.batch_norm = false};
  std::atomic<bool> fail{false};
  int kind = 0;
  *net.hook = [&](const at::Tensor& images) {
    if (!fail || images.size(0) != 4) return;  // replica 2's share of 14 is 5, 5, 4
    if (kind == 0) TORCH_CHECK(false, "the cable was pulled");
    if (kind == 1) throw std::bad_alloc();
    if (kind == 2) TORCH_CHECK_WITH(OutOfMemoryError, false, "tried to allocate 7 GiB");
    if (kind == 3) TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.");
    throw std::logic_error("a bug");
  };
  Replicas replicas(3, net);
  const Batch batch = make_batch(14);
  const double loss = step(*replicas.strategy, batch).loss_sum.item<double>();
  const at::Tensor gradient = replicas.model->fc->weight.grad().clone();

  const auto message = [&](auto expected) {
    fail = true;
    std::string text;
    try {
      step(*replicas.strategy, batch);
    } catch (const decltype(expected)& error) {
      text = error.what();
    }
    fail = false;
    return text;
  };
  const std::string failed = message(DeviceError(""));
  CHECK(failed.find("cpu replica 2") != std::string::npos);
  CHECK(failed.find("4 samples") != std::string::npos);
  CHECK(failed.find("batch of 14") != std::string::npos);
  CHECK(failed.find("the cable was pulled") != std::string::npos);
  for (kind = 1; kind <= 3; ++kind) {
    CAPTURE(kind);
    const std::string exhausted = message(OutOfMemoryError(""));
    CHECK(exhausted.find("cpu replica 2") != std::string::npos);
    CHECK(exhausted.find("4 samples") != std::string::npos);
    CHECK(exhausted.find("try a batch of 7") != std::string::npos);
  }
  CHECK(message(std::logic_error("")) == "a bug");

  CHECK(step(*replicas.strategy, batch).loss_sum.item<double>() == loss);
  CHECK(at::equal(replicas.model->fc->weight.grad(), gradient));
}

TEST_CASE("a twin of another structure is refused with the tensor's name", "[parallel]") {
  const auto model = make_net({});
  std::string message;
  try {
    make_data_parallel(model, twin_of({.width = 4}), cpu_replicas(2));
  } catch (const std::logic_error& error) {
    message = error.what();
  }
  CHECK(message.find("conv1.weight is [8, 3, 3, 3] there, [4, 3, 3, 3] here") != std::string::npos);
  CHECK_THROWS_AS(make_data_parallel(model, twin_of({.batch_norm = false}), cpu_replicas(2)), std::logic_error);
  CHECK_THROWS_AS(make_data_parallel(model, twin_of({}), cpu_replicas(1)), std::logic_error);
}

}  // namespace mgtrain::test
