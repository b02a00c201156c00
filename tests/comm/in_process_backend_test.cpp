// What our own back end promises beyond the contract: who does not fit is told by name, on all ranks; waits end.
#include "comm/in_process_backend.h"

#include <limits>
#include <thread>

#include "comm/backend_ranks.h"
#include "support/catch.h"

namespace mgtrain {
namespace {

using namespace test;
using Catch::Contains;

constexpr std::chrono::seconds kNever{600};

/// What each rank's call threw ("" for nothing), without ending the others.
template <class Work>
std::vector<std::string> errors_of(const InProcessWorld& world, const Work& work) {
  std::vector<std::string> errors(static_cast<size_t>(world.comm()->size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.comm()->size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(rank, world.process_group(rank));
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// The one error that both ranks get.
template <class Work>
std::string error_of_both(const Work& work) {
  const auto world = make_in_process_world(2, kNever);
  const auto errors = errors_of(*world, work);
  CHECK(errors[0] == errors[1]);
  return errors[0];
}

/// ... of an all_reduce of these two ranks' tensors.
std::string all_reduce_error(const at::Tensor& first, const at::Tensor& second,
                             c10d::ReduceOp op = c10d::ReduceOp::SUM) {
  return error_of_both([&](int rank, const Group& group) {
    Tensors tensors = {rank == 0 ? first : second};
    group->allreduce(tensors, {.reduceOp = op})->wait();
  });
}

TEST_CASE("an all_reduce of different tensors is refused on all ranks by name", "[comm]") {
  const std::string here = "all_reduce(sum) on group world (ranks 0, 1), call 0: ";
  CHECK_THAT(all_reduce_error(at::zeros({4}), at::zeros({4}, at::kLong)),
             Contains(here + "the ranks differ in the dtype: rank 0 has Float, rank 1 has Long"));
  CHECK_THAT(all_reduce_error(at::zeros({4}), at::zeros({2, 2})),
             Contains(here + "the ranks differ in the shape: rank 0 has [4], rank 1 has [2, 2]"));
  CHECK_THAT(all_reduce_error(at::zeros({3, 2}), at::zeros({2, 3}).t()),
             Contains(here + "rank 1 cannot take part: a tensor that is not contiguous; call contiguous() first"));
  CHECK_THAT(
      all_reduce_error(at::zeros({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast), at::zeros({2, 3, 4, 5})),
      Contains(here + "rank 0 cannot take part: a tensor that is not contiguous"));
  CHECK_THAT(all_reduce_error(at::zeros({4}).to_sparse(), at::zeros({4})), Contains("rank 0 cannot take part"));
}

TEST_CASE("reductions that do not exist are refused on all ranks", "[comm]") {
  const at::Tensor floats = at::zeros({4}), flags = at::zeros({4}, at::kBool), whole = at::zeros({4}, at::kLong);
  CHECK_THAT(all_reduce_error(flags, flags), Contains("rank 0 cannot take part: no sum of Bool elements"));
  CHECK_THAT(all_reduce_error(whole, whole, c10d::ReduceOp::AVG), Contains("no average of Long elements"));
  CHECK_THAT(all_reduce_error(floats, floats, c10d::ReduceOp::PRODUCT),
             Contains("a reduction other than sum, average, maximum and minimum"));
}

TEST_CASE("different calls, roots and reductions are refused on all ranks by name", "[comm]") {
  CHECK_THAT(error_of_both([](int rank, const Group& group) {
               Tensors tensors = {at::zeros({4})};
               if (rank == 0) group->allreduce(tensors)->wait();
               if (rank == 1) group->barrier()->wait();
             }),
             Contains("the ranks differ in the operation: rank 0 has all_reduce(sum), rank 1 has barrier"));
  CHECK_THAT(error_of_both([](int rank, const Group& group) {
               Tensors tensors = {at::zeros({4})};
               group->broadcast(tensors, {.rootRank = rank})->wait();
             }),
             Contains("the ranks differ in the root: rank 0 has rank 0, rank 1 has rank 1"));
  CHECK_THAT(error_of_both([](int, const Group& group) {
               Tensors tensors = {at::zeros({4})};
               group->broadcast(tensors, {.rootRank = 2})->wait();
             }),
             Contains("rank 0 cannot take part: there is no rank 2 in a group of 2"));
  CHECK_THAT(error_of_both([](int rank, const Group& group) {
               Tensors tensors = {at::zeros({4})};
               group->allreduce(tensors, {.reduceOp = rank == 0 ? c10d::ReduceOp::MAX : c10d::ReduceOp::MIN})->wait();
             }),
             Contains("rank 0 has all_reduce(maximum), rank 1 has all_reduce(minimum)"));
}

TEST_CASE("outputs that do not fit what is gathered or scattered are refused on all ranks", "[comm]") {
  CHECK_THAT(
      error_of_both([](int rank, const Group& group) {
        Tensors inputs = {at::zeros({4})};
        std::vector<Tensors> outputs = {{at::zeros({4}), at::zeros({rank == 0 ? 4 : 3})}};
        group->allgather(outputs, inputs)->wait();
      }),
      Contains("rank 1 cannot take part: an output tensor of Float [3] on cpu where Float [4] on cpu is needed"));
  CHECK_THAT(error_of_both([](int rank, const Group& group) {
               at::Tensor input = at::zeros({4}), output = at::zeros({rank == 0 ? 7 : 8});
               group->_allgather_base(output, input)->wait();
             }),
             Contains("rank 0 cannot take part: a tensor of 7 elements for 2 ranks of 4"));
  CHECK_THAT(
      error_of_both([](int rank, const Group& group) {
        Tensors outputs = {at::zeros({4}, rank == 0 ? at::kFloat : at::kDouble)};
        std::vector<Tensors> inputs = {{at::zeros({4}), at::zeros({4})}};
        group->reduce_scatter(outputs, inputs)->wait();
      }),
      Contains("rank 1 cannot take part: an output tensor of Double [4] on cpu where Float [4] on cpu is needed"));
  CHECK_THAT(error_of_both([](int, const Group& group) {
               Tensors outputs = {at::zeros({4})};
               std::vector<Tensors> inputs = {{at::zeros({4})}};
               group->reduce_scatter(outputs, inputs)->wait();
             }),
             Contains("a list of 1 input tensors where one a rank is needed"));
}

TEST_CASE("a message that does not fit, or from nobody, is refused by its receiver", "[comm]") {
  const auto world = make_in_process_world(2, kNever);
  const auto errors = errors_of(*world, [](int rank, const Group& group) {
    Tensors tensors = {at::zeros({rank + 3})};
    if (rank == 0) group->send(tensors, 1, 0)->wait();
    if (rank == 1) group->recv(tensors, 0, 0)->wait();
  });
  CHECK(errors[0].empty());
  CHECK(errors[1] == "recv on group world: rank 0 sent Float [3], rank 1 expects Float [4]");
  Tensors tensors = {at::zeros({3})}, strided = {at::zeros({2, 3}).t()};
  const Group group = world->process_group(0);
  CHECK_THROWS_WITH(group->send(tensors, 2, 0), Contains("send on group world: there is no rank 2 in a group of 2"));
  CHECK_THROWS_WITH(group->recv(tensors, -1, 0), Contains("recv on group world: there is no rank -1 in a group of 2"));
  CHECK_THROWS_WITH(group->send(strided, 1, 0), Contains("send on group world: a tensor that is not contiguous"));
}

TEST_CASE("a sent tensor may be written to at once", "[comm]") {
  const auto results = results_of(Carrier::kInProcess, 2, [](const RankEnd& end) {
    Tensors tensors = {at::ones({5})};
    if (end.rank == 0) {
      end.all->send(tensors, 1, 0);
      tensors[0].zero_();
      end.all->barrier();
    } else {
      end.all->barrier();
      end.all->recv(tensors, 0, 0)->wait();
    }
    return tensors[0];
  });
  CHECK(at::equal(results[1], at::ones({5})));
}

TEST_CASE("averages divide the sum by the ranks, and types of 16 bits are rounded once", "[comm]") {
  const auto result = [](int size, c10d::ReduceOp op, const std::vector<double>& values, at::ScalarType dtype) {
    return results_of(Carrier::kInProcess, size,
                      [&](const RankEnd& end) {
                        Tensors tensors = {at::full({3}, values[static_cast<size_t>(end.rank)], dtype)};
                        end.all->allreduce(tensors, {.reduceOp = op})->wait();
                        return tensors[0];
                      })[0][1]
        .item<double>();
  };
  CHECK(result(3, c10d::ReduceOp::AVG, {1, 2, 6}, at::kDouble) == 3);
  CHECK(result(3, c10d::ReduceOp::AVG, {1, 2, 4}, at::kFloat) == double{7.F / 3.F});
  // 256 + 1 is 256 in bfloat16, whose mantissa has 8 bits; twice rounded it would stay there.
  CHECK(result(3, c10d::ReduceOp::SUM, {256, 1, 1}, at::kBFloat16) == 258);
  CHECK(result(3, c10d::ReduceOp::SUM, {2048, 1, 1}, at::kHalf) == 2050);
}

TEST_CASE("no reduction loses a NaN, whoever brings it", "[comm]") {
  const auto op = GENERATE(c10d::ReduceOp::SUM, c10d::ReduceOp::AVG, c10d::ReduceOp::MAX, c10d::ReduceOp::MIN);
  for (int bad = 0; bad < 3; ++bad) {
    for (const at::Tensor& result : results_of(Carrier::kInProcess, 3, [&](const RankEnd& end) {
           Tensors tensors = {
               at::full({7}, end.rank == bad ? std::numeric_limits<double>::quiet_NaN() : 1., at::kFloat)};
           end.all->allreduce(tensors, {.reduceOp = op})->wait();
           return tensors[0];
         })) {
      CHECK(result.isnan().all().item<bool>());
    }
  }
}

TEST_CASE("gathering into, and scattering from, the tensor itself works in place", "[comm]") {
  const auto gathered = results_of(Carrier::kInProcess, 3, [](const RankEnd& end) {
    at::Tensor output = at::full({6}, end.rank, at::kInt);
    at::Tensor input = output.narrow(0, 2 * end.rank, 2);
    end.all->_allgather_base(output, input)->wait();
    return output;
  });
  for (const at::Tensor& result : gathered) CHECK(at::equal(result, at::tensor({0, 0, 1, 1, 2, 2}, at::kInt)));
  const auto scattered = results_of(Carrier::kInProcess, 3, [](const RankEnd& end) {
    at::Tensor input = at::arange(6, at::kInt) * (end.rank + 1);
    at::Tensor output = input.narrow(0, 2 * end.rank, 2);
    end.all->_reduce_scatter_base(output, input)->wait();
    return output;
  });
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(at::equal(scattered[static_cast<size_t>(rank)], at::tensor({12 * rank, 12 * rank + 6}, at::kInt)));
  }
}

TEST_CASE("several tensors travel in one call, coalesced or not, empty ones too", "[comm]") {
  const auto results = results_of(Carrier::kInProcess, 2, [](const RankEnd& end) {
    Tensors tensors = {at::full({3}, end.rank + 1), at::empty({0}), at::full({1}, 10 * (end.rank + 1))};
    end.all->allreduce(tensors)->wait();
    end.all->allreduce_coalesced(tensors)->wait();
    return at::cat(tensors);
  });
  for (const at::Tensor& result : results) CHECK(at::equal(result, at::tensor({6.F, 6.F, 6.F, 60.F})));
}

TEST_CASE("a call's future holds its tensors, a receive's once the message has come", "[comm]") {
  const auto results = results_of(Carrier::kInProcess, 2, [](const RankEnd& end) {
    Tensors tensors = {at::ones({2})};
    const auto sum = end.all->allreduce(tensors)->getFuture()->value().toTensorVector();
    if (end.rank == 0) return end.all->send(tensors, 1, 0), sum[0];
    Tensors into = {at::zeros({2})};
    return end.all->recv(into, 0, 0)->getFuture()->value().toTensorVector()[0];
  });
  CHECK(at::equal(results[0], at::full({2}, 2.F)));
  CHECK(at::equal(results[1], at::full({2}, 2.F)));
}

TEST_CASE("an abort frees ranks that wait in any group, with its cause", "[comm]") {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto world = make_in_process_world(4, kNever);
    const auto errors = errors_of(*world, [&](int rank, const Group& all) {
      Tensors tensors = {at::ones({2})};
      if (rank == 0) world->sub_group(rank, "tensor", {0, 1})->allreduce(tensors)->wait();
      if (rank == 1) world->comm()->abort(1, "out of memory");
      if (rank == 2) all->barrier()->wait();
      if (rank == 3) all->recv(tensors, 1, 0)->wait();
    });
    CHECK(errors[1].empty());
    for (const size_t rank : {0, 2, 3}) CHECK_THAT(errors[rank], Contains("because rank 1 failed: out of memory"));
  }
}

TEST_CASE("a rank that does not come is named after the call's or the world's time-out", "[comm]") {
  const auto world = make_in_process_world(4, std::chrono::milliseconds(1));
  Tensors tensors = {at::ones({2})};
  CHECK_THROWS_MATCHES(
      world->sub_group(3, "data", {1, 3})->allreduce(tensors), MeetingTimeout,
      Catch::Message("time-out after 0.001 s in all_reduce(sum) on group data (ranks 1, 3), call 0: missing rank 1 "
                     "(seen by rank 3)"));
  const auto patient = make_in_process_world(2, kNever);
  CHECK_THROWS_AS(patient->process_group(0)->allreduce(tensors, {.timeout = std::chrono::milliseconds(1)}),
                  MeetingTimeout);
}

TEST_CASE("a sub-group is of different ranks of the world, the same to all of them", "[comm]") {
  const auto world = make_in_process_world(3, kNever);
  CHECK_THROWS_WITH(world->sub_group(0, "data", {1, 2}), "group data (ranks 1, 2) is joined by rank 0");
  CHECK_THROWS_WITH(world->sub_group(0, "data", {0, 0}),
                    "group data (ranks 0, 0) is not made of different ranks of a world of 3");
  CHECK_THROWS_AS(world->sub_group(0, "data", {0, 3}), CallMismatch);
  CHECK_THROWS_AS(world->sub_group(0, "data", {}), CallMismatch);
  CHECK(world->sub_group(2, "data", {2, 0})->getRank() == 0);
  CHECK_THROWS_WITH(world->sub_group(0, "data", {0, 2}),
                    "group data is of ranks 2, 0 to others, and of ranks 0, 2 to rank 0");
}

TEST_CASE("Gloo names an address that is not this machine's", "[comm]") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  CHECK_THROWS_MATCHES(make_process_group(store, 0, 1, at::kCPU, kNever, "192.0.2.1"), DeviceError,
                       Catch::Predicate<DeviceError>([](const DeviceError& error) {
                         return std::string(error.what()).find("192.0.2.1") != std::string::npos;
                       }));
}

}  // namespace
}  // namespace mgtrain
