// The simulated devices themselves: what they refuse, count, cap and provoke.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/types.h>
#include <csignal>

#include "support/catch.h"
#include "support/program.h"
#include "support/sim_autocast.h"
#include "support/sim_device.h"

namespace mgtrain::test {
namespace {

at::Tensor on(int device, at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return at::ones(sizes, dtype).to(sim::device(device));
}

/// What the call throws; empty if nothing.
template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return {};
}

const std::string kTwoDevices = "Expected all tensors to be on the same device";

}  // namespace

TEST_CASE("an operation on tensors of two devices is refused", "[simulated]") {
  const at::Tensor here = on(0, {2, 2}), there = on(1, {2, 2}), host = at::ones({2, 2});
  const at::Tensor images = on(0, {1, 2, 4, 4}), weight = on(1, {3, 2, 3, 3}), ones = on(0, {2});
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"add", refusal([&] { here + there; })},
      {"add, host", refusal([&] { here + host; })},
      {"mm", refusal([&] { here.mm(there); })},
      {"cat", refusal([&] {
         at::cat({here, there});
       })},
      {"stack", refusal([&] {
         at::stack({here, host});
       })},
      {"conv2d", refusal([&] { at::conv2d(images, weight); })},
      {"linear", refusal([&] { at::linear(here, there); })},
      {"cross entropy, target on the host", refusal([&] { at::cross_entropy_loss(here, at::zeros({2}, at::kLong)); })},
      {"batch norm, statistics on the host",
       refusal([&] { at::batch_norm(images, ones, ones, at::zeros({2}), at::ones({2}), true, 0.1, 1e-5, false); })},
      {"out", refusal([&] {
         at::Tensor out = on(1, {2, 2});
         at::add_out(out, here, here);
       })},
      {"in place", refusal([&] {
         at::Tensor(on(0, {2, 2})).add_(there);
       })},
      {"a number of another device", refusal([&] { here + on(1, {}); })},
      {"where", refusal([&] { at::where(here > 0, there, there); })},
      {"set_", refusal([&] { on(0, {2}).set_(there.storage(), 0, {2}, {1}); })},
  };
  for (const auto& [what, text] : refused) {
    INFO(what);
    CHECK(text.substr(0, kTwoDevices.size()) == kTwoDevices);
  }
  CHECK(refusal([] { at::ones({2}).to(sim::device(7)); }).find("sim:7 of 4") != std::string::npos);
  CHECK(refusal([&] { at::randn({2}, at::TensorOptions(sim::device(0))); }).find("random") != std::string::npos);
}

TEST_CASE("what a GPU allows is allowed: numbers and indices of the host, copies between devices", "[simulated]") {
  const at::Tensor here = on(0, {3, 2});
  CHECK(at::equal((here + at::ones({})).cpu(), at::full({3, 2}, 2.0F)));
  CHECK(at::equal((here * 3).cpu(), at::full({3, 2}, 3.0F)));
  CHECK(here.index({at::tensor({0, 2})}).sizes() == at::IntArrayRef({2, 2}));
  at::Tensor there = at::zeros({3, 2}, sim::device(1));
  there.copy_(here);
  CHECK(at::equal(there.cpu(), here.cpu()));
  CHECK(there.device() == sim::device(1));
}

TEST_CASE("views, in-place operations and strides are those of the CPU", "[simulated]") {
  const at::Tensor host = at::arange(24, at::kFloat).view({1, 4, 2, 3});
  const at::Tensor there = host.to(sim::device(2));
  at::Tensor row = there.select(1, 3);
  row.add_(100);
  CHECK(there.cpu().select(1, 3).min().item<float>() == 118);
  const at::Tensor last = there.contiguous(at::MemoryFormat::ChannelsLast);
  CHECK(last.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(last.cpu().strides() == last.strides());
  at::Tensor grown = at::empty({0}, sim::device(2));
  at::add_out(grown, there, there);
  CHECK(at::equal(grown.cpu(), there.cpu() * 2));
}

TEST_CASE("copies are counted by route, with their bytes; a device's own are not", "[simulated]") {
  sim::reset();
  const at::Tensor first = on(0, {10});
  first.to(at::kDouble).to(sim::device(1)).cpu();
  first.clone();
  CHECK(sim::copies() == std::map<std::string, sim::Copies>{
                             {"cpu > sim:0", {1, 40}}, {"sim:0 > sim:1", {1, 80}}, {"sim:1 > cpu", {1, 80}}});
}

TEST_CASE("each read by the host counts as a wait", "[simulated]") {
  const at::Tensor number = on(3, {1});
  sim::reset();
  CHECK(number.item<float>() == 1);
  CHECK(at::equal(number, number));
  CHECK(sim::waits(3).reads == 2);
  CHECK(sim::waits(0).reads == 0);
}

TEST_CASE("memory is counted a device, and a cap throws before it is exceeded", "[simulated]") {
  sim::reset();
  const int64_t before = sim::memory(1).live;
  {
    const at::Tensor block = on(1, {1000});
    CHECK(sim::memory(1).live - before == 4000);
    { const at::Tensor result = block + block; }
    CHECK(sim::memory(1).live - before == 4000);
    CHECK(sim::memory(1).peak - before == 8000);
    sim::set_cap(1, before + 6000);
    std::string text;
    try {
      at::empty({1000}, sim::device(1));
    } catch (const c10::OutOfMemoryError& error) {
      text = error.what_without_backtrace();
    }
    CHECK(text.find("4000 bytes on sim:1") != std::string::npos);
    CHECK(sim::memory(1).live - before == 4000);
    CHECK_NOTHROW(at::empty({500}, sim::device(1)));
    CHECK_NOTHROW(at::empty({1000}, sim::device(0)));  // a cap is one device's
  }
  CHECK(sim::memory(1).live == before);
}

TEST_CASE("the n-th operation of a device fails once, naming it", "[simulated]") {
  sim::reset();
  const at::Tensor first = on(0, {2}), second = on(1, {2});
  sim::fail_at(1, 2);
  CHECK_NOTHROW(second + 1);
  CHECK_NOTHROW(first + 1);
  std::string text;
  try {
    second + 1;
  } catch (const c10::AcceleratorError& error) {
    text = error.what_without_backtrace();
  }
  CHECK(text.find("injected fault on sim:1 in aten::add") != std::string::npos);
  CHECK_NOTHROW(second + 1);
}

TEST_CASE("the n-th operation of a device can be delayed", "[simulated]") {
  sim::reset();
  const at::Tensor tensor = on(0, {2});
  sim::delay_at(0, 1, std::chrono::milliseconds(20));
  const auto start = std::chrono::steady_clock::now();
  const at::Tensor result = tensor + 1;
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(20));  // sleep_for never sleeps less
  CHECK(result.cpu()[0].item<float>() == 2);
}

TEST_CASE("operations are recorded with name and thread", "[simulated]") {
  sim::reset();
  const at::Tensor tensor = on(0, {2});
  sim::record_operations(true);
  tensor.mul(2);
  const std::vector<sim::Operation> seen = sim::operations(0);
  sim::record_operations(false);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].name == "aten::mul");
  CHECK(seen[0].thread == std::this_thread::get_id());
  CHECK(sim::operation_count(0) == 2);  // the copy to it as well
}

TEST_CASE("a factory without an index takes the current device", "[simulated]") {
  const c10::DeviceGuard guard(sim::device(2));
  CHECK(at::zeros({1}, at::TensorOptions(at::kPrivateUse1)).device() == sim::device(2));
}

TEST_CASE("under autocast a convolution computes in bfloat16, a loss in float", "[simulated]") {
  sim::enable_autocast();
  const at::Tensor images = on(0, {2, 3, 8, 8}), weight = on(0, {4, 3, 3, 3});
  at::autocast::set_autocast_enabled(at::kPrivateUse1, true);
  at::autocast::set_autocast_dtype(at::kPrivateUse1, at::kBFloat16);
  const at::Tensor result = at::conv2d(images, weight);
  const at::Tensor loss = at::cross_entropy_loss(result.mean({2, 3}), on(0, {2}, at::kLong));
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kPrivateUse1, false);
  CHECK(result.scalar_type() == at::kBFloat16);
  CHECK(result.device() == sim::device(0));
  CHECK(loss.scalar_type() == at::kFloat);
  CHECK(at::conv2d(images, weight).scalar_type() == at::kFloat);
}

TEST_CASE("reads a device's memory from the host", "[.host_read]") {
  const at::Tensor tensor = on(0, {2});
  const volatile float* address = tensor.const_data_ptr<float>();
  WARN("read " << *address);
}

TEST_CASE("a host that reads a device's memory dies", "[simulated]") {
  const ProgramResult result = Program(mgtrain_path(), {"[.host_read]"}, {}).wait();
  // Catch reports the signal and lets it end the process; a sanitizer reports it and exits.
  CHECK(result.exit_code != 0);
  CHECK((result.out + result.err).find("SEGV") != std::string::npos);
  CHECK(result.out.find("read 1") == std::string::npos);
}

}  // namespace mgtrain::test
