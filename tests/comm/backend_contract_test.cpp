// What every back end must do, over each of them and worlds of 1 to 4 ranks. Values are small whole numbers: sums of
// them are exact in every type, so results are compared for equality.
#include <torch/nn/modules/linear.h>

#include "comm/backend_ranks.h"
#include "parallel/gradient_reducer.h"
#include "support/catch.h"

namespace mgtrain {
namespace {

using namespace test;

struct Case {
  Carrier carrier;
  int size;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.carrier << ", ranks: " << c.size; }

Case each_case(Carrier carrier, int size) { return {carrier, size}; }
#define EACH_CASE()                                                                              \
  const Case c = each_case(GENERATE(Carrier::kInProcess, Carrier::kGloo), GENERATE(1, 2, 3, 4)); \
  CAPTURE(c)

/// What rank `rank` brings: whole numbers below 16 that differ by rank and element.
at::Tensor brought(int rank, at::IntArrayRef sizes, at::ScalarType dtype) {
  const at::Tensor elements = at::arange(c10::multiply_integers(sizes));
  return (elements * (rank + 3)).remainder(16).add(rank).to(dtype).view(sizes);
}

const at::ScalarType kNumbers[] = {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kByte};
// Fewer elements than ranks, not divisible by them, more than a block.
const std::vector<int64_t> kShapes[] = {{1}, {3}, {7, 3}, {2, 3, 5, 41}, {4099}};

struct Reduction {
  const char* name;
  c10d::ReduceOp::RedOpType op;
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> two;
};
const Reduction kReductions[] = {
    {"sum", c10d::ReduceOp::SUM, [](const auto& a, const auto& b) { return a + b; }},
    {"maximum", c10d::ReduceOp::MAX, [](const auto& a, const auto& b) { return at::maximum(a, b); }},
    {"minimum", c10d::ReduceOp::MIN, [](const auto& a, const auto& b) { return at::minimum(a, b); }},
};

at::Tensor reduced(const Reduction& reduction, int size, at::IntArrayRef sizes, at::ScalarType dtype) {
  at::Tensor result = brought(0, sizes, dtype);
  for (int rank = 1; rank < size; ++rank) result = reduction.two(result, brought(rank, sizes, dtype));
  return result;
}

TEST_CASE("all_reduce leaves the reduction of what all ranks brought on each", "[comm]") {
  EACH_CASE();
  struct Seen {
    std::string what;
    bool right;
  };
  std::vector<std::vector<Seen>> seen(static_cast<size_t>(c.size));
  on_ranks_of(c.carrier, c.size, [&](const RankEnd& end) {
    for (const Reduction& reduction : kReductions) {
      for (const at::ScalarType dtype : kNumbers) {
        for (const auto& shape : kShapes) {
          Tensors tensors = {brought(end.rank, shape, dtype)};
          end.all->allreduce(tensors, {.reduceOp = reduction.op})->wait();
          seen[static_cast<size_t>(end.rank)].push_back(
              {c10::str(reduction.name, " of ", dtype, " ", shape),
               at::equal(tensors[0], reduced(reduction, c.size, shape, dtype))});
        }
      }
    }
  });
  for (const auto& rank : seen) {
    for (const Seen& result : rank) {
      INFO(result.what);
      CHECK(result.right);
    }
  }
}

TEST_CASE("broadcast gives every rank the root's tensor", "[comm]") {
  EACH_CASE();
  for (int root = 0; root < c.size; ++root) {
    const auto results = results_of(c.carrier, c.size, [&](const RankEnd& end) {
      Tensors tensors = {brought(end.rank, {5, 7}, at::kFloat)};
      end.all->broadcast(tensors, {.rootRank = root})->wait();
      return tensors[0];
    });
    for (const at::Tensor& result : results) CHECK(at::equal(result, brought(root, {5, 7}, at::kFloat)));
  }
}

TEST_CASE("all_gather gives every rank what each brought, as a list and as one tensor", "[comm]") {
  EACH_CASE();
  at::Tensor expected = at::empty({0, 3}, at::kLong);
  for (int rank = 0; rank < c.size; ++rank) expected = at::cat({expected, brought(rank, {5, 3}, at::kLong)});
  const auto lists = results_of(c.carrier, c.size, [&](const RankEnd& end) {
    Tensors inputs = {brought(end.rank, {5, 3}, at::kLong)};
    std::vector<Tensors> outputs(1);
    for (int rank = 0; rank < c.size; ++rank) outputs[0].push_back(at::zeros({5, 3}, at::kLong));
    end.all->allgather(outputs, inputs)->wait();
    return at::cat(outputs[0]);
  });
  const auto whole = results_of(c.carrier, c.size, [&](const RankEnd& end) {
    at::Tensor input = brought(end.rank, {5, 3}, at::kLong), output = at::zeros({5 * c.size, 3}, at::kLong);
    end.all->_allgather_base(output, input)->wait();
    return output;
  });
  for (const at::Tensor& result : lists) CHECK(at::equal(result, expected));
  for (const at::Tensor& result : whole) CHECK(at::equal(result, expected));
}

TEST_CASE("reduce_scatter leaves each rank its part of the sum, of a list and of one tensor", "[comm]") {
  EACH_CASE();
  const at::Tensor sums = reduced(kReductions[0], c.size, {c.size, 3, 5}, at::kFloat);
  const auto lists = results_of(c.carrier, c.size, [&](const RankEnd& end) {
    Tensors outputs = {at::zeros({3, 5})};
    std::vector<Tensors> inputs = {brought(end.rank, {c.size, 3, 5}, at::kFloat).unbind(0)};
    end.all->reduce_scatter(outputs, inputs)->wait();
    return outputs[0];
  });
  const auto whole = results_of(c.carrier, c.size, [&](const RankEnd& end) {
    at::Tensor input = brought(end.rank, {c.size * 3, 5}, at::kFloat), output = at::zeros({3, 5});
    end.all->_reduce_scatter_base(output, input)->wait();
    return output;
  });
  for (int rank = 0; rank < c.size; ++rank) {
    CHECK(at::equal(lists[static_cast<size_t>(rank)], sums[rank]));
    CHECK(at::equal(whole[static_cast<size_t>(rank)], sums[rank]));
  }
}

TEST_CASE("a ring of ranks that all send before they receive goes on, in order, tags apart", "[comm]") {
  const Case c = each_case(GENERATE(Carrier::kInProcess, Carrier::kGloo), GENERATE(2, 3, 4));
  CAPTURE(c);
  const auto results = results_of(c.carrier, c.size, [&](const RankEnd& end) {
    const int next = (end.rank + 1) % c.size, previous = (end.rank + c.size - 1) % c.size;
    std::vector<c10::intrusive_ptr<c10d::Work>> sent;
    std::vector<Tensors> messages;  // until they have arrived
    for (int tag = 0; tag < 2; ++tag) {
      for (int i = 0; i < 3; ++i) {
        messages.push_back({at::full({2}, 100 * end.rank + 10 * tag + i, at::kInt)});
        sent.push_back(end.all->send(messages.back(), next, tag));
      }
    }
    Tensors received;
    for (int tag = 1; tag >= 0; --tag) {
      for (int i = 0; i < 3; ++i) {
        Tensors into = {at::zeros({2}, at::kInt)};
        end.all->recv(into, previous, tag)->wait();
        received.push_back(into[0]);
      }
    }
    for (const auto& work : sent) work->wait();
    return at::stack(received);
  });
  for (int rank = 0; rank < c.size; ++rank) {
    const int from = 100 * ((rank + c.size - 1) % c.size);
    const at::Tensor expected = at::tensor({10, 11, 12, 0, 1, 2}, at::kInt).add(from);
    CHECK(at::equal(results[static_cast<size_t>(rank)].select(1, 0), expected));
    CHECK(at::equal(results[static_cast<size_t>(rank)].select(1, 1), expected));
  }
}

TEST_CASE("two receives may begin before the first is waited for, in any order", "[comm]") {
  const Carrier carrier = GENERATE(Carrier::kInProcess, Carrier::kGloo);
  const auto results = results_of(carrier, 2, [&](const RankEnd& end) {
    Tensors first = {at::zeros({1})}, second = {at::zeros({1})};
    if (end.rank == 0) {
      first[0].fill_(1), second[0].fill_(2);
      const auto one = end.all->send(first, 1, 0), two = end.all->send(second, 1, 0);
      one->wait(), two->wait();
    } else {
      const auto one = end.all->recv(first, 0, 0), two = end.all->recv(second, 0, 0);
      two->wait(), one->wait();
    }
    return at::cat({first[0], second[0]});
  });
  CHECK(at::equal(results[1], at::tensor({1.F, 2.F})));
}

TEST_CASE("nobody passes a barrier before all have come", "[comm]") {
  EACH_CASE();
  std::atomic<int> came = 0, early = 0;
  on_ranks_of(c.carrier, c.size, [&](const RankEnd& end) {
    for (int round = 1; round <= 20; ++round) {
      ++came;
      end.all->barrier()->wait();
      if (came < round * c.size) ++early;
      end.all->barrier()->wait();
    }
  });
  CHECK(early == 0);
}

TEST_CASE("sub-groups work beside each other and the group of all, ranked in the order given", "[comm]") {
  const Carrier carrier = GENERATE(Carrier::kInProcess, Carrier::kGloo);
  const auto results = results_of(carrier, 4, [&](const RankEnd& end) {
    const bool even = end.rank % 2 == 0;
    const Group pair = even ? end.sub_group("even", {0, 2}) : end.sub_group("odd", {3, 1});
    Tensors sum = {at::full({3}, end.rank + 1, at::kInt)}, rooted = {at::full({3}, end.rank, at::kInt)};
    Tensors all = {at::full({3}, end.rank + 1, at::kInt)};
    for (int repeat = 0; repeat < 10; ++repeat) {
      pair->allreduce(sum)->wait();  // twice the sum
      pair->broadcast(rooted, {.rootRank = 0})->wait();
      end.all->allreduce(all, {.reduceOp = c10d::ReduceOp::MAX})->wait();
      sum[0].floor_divide_(2);
    }
    pair->barrier()->wait();
    return at::stack({sum[0], rooted[0], all[0], at::full({3}, pair->getRank() * 10 + pair->getSize(), at::kInt)});
  });
  // After the first of the repeats, sum/2 is the same on both ranks, and stays.
  const int sums[] = {2, 3, 2, 3}, roots[] = {0, 3, 0, 3}, places[] = {2, 12, 12, 2};
  for (size_t rank = 0; rank < 4; ++rank) {
    CHECK(at::equal(results[rank].select(1, 0), at::tensor({sums[rank], roots[rank], 4, places[rank]}, at::kInt)));
  }
}

TEST_CASE("sums of floating-point numbers have the same bits on all ranks and in every repeat", "[comm]") {
  EACH_CASE();
  const auto input = [](int rank) {
    return at::sin(at::arange(10007, at::kFloat) * static_cast<double>(rank + 1)).mul(1000);
  };
  const auto sum = [&](const RankEnd& end) {
    Tensors tensors = {input(end.rank)};
    end.all->allreduce(tensors)->wait();
    return tensors[0];
  };
  const auto first = results_of(c.carrier, c.size, sum);
  for (int repeat = 0; repeat < 5; ++repeat) {
    for (const at::Tensor& result : results_of(c.carrier, c.size, sum)) CHECK(at::equal(result, first[0]));
  }
  if (c.carrier == Carrier::kInProcess) {  // in rank order
    at::Tensor expected = input(0);
    for (int rank = 1; rank < c.size; ++rank) expected = expected + input(rank);
    CHECK(at::equal(first[0], expected));
  }
}

/// Gradients of each rank's quarter of the data, averaged by c10d's Reducer while backward runs; two steps.
std::vector<Tensors> reducer_gradients(Carrier carrier, int size, const at::Tensor& data) {
  std::vector<Tensors> gradients(static_cast<size_t>(size));
  on_ranks_of(carrier, size, [&](const RankEnd& end) {
    const at::Tensor weight = brought(0, {6, 8}, at::kDouble).div(7).requires_grad_();
    const at::Tensor bias = brought(1, {6}, at::kDouble).div(7).requires_grad_();
    GradientReducer reducer({{"weight", weight}, {"bias", bias}}, end.all, /*as_bfloat16=*/false);
    for (int step = 0; step < 2; ++step) {
      weight.mutable_grad() = bias.mutable_grad() = at::Tensor();
      reducer.begin_step();
      const at::Tensor own = data.chunk(size)[static_cast<size_t>(end.rank)];
      const at::Tensor loss = at::addmm(bias, own, weight.t()).tanh().pow(2).sum() / data.size(0) * size;
      reducer.begin_reducing_backward();
      loss.backward();
    }
    gradients[static_cast<size_t>(end.rank)] = {weight.grad().clone(), bias.grad().clone()};
  });
  return gradients;
}

TEST_CASE("c10d's Reducer over it leaves one process's gradients, with the same bits everywhere and again", "[comm]") {
  EACH_CASE();
  const at::Tensor data = at::sin(at::arange(24 * 8, at::kDouble)).view({24, 8});
  const auto gradients = reducer_gradients(c.carrier, c.size, data);
  const at::Tensor weight = brought(0, {6, 8}, at::kDouble).div(7).requires_grad_();
  const at::Tensor bias = brought(1, {6}, at::kDouble).div(7).requires_grad_();
  (at::addmm(bias, data, weight.t()).tanh().pow(2).sum() / data.size(0)).backward();
  const auto again = reducer_gradients(c.carrier, c.size, data);
  for (size_t rank = 0; rank < gradients.size(); ++rank) {
    // The order of 24 addends in fp64.
    CHECK(at::allclose(gradients[rank][0], weight.grad(), 1e-13, 1e-14));
    CHECK(at::allclose(gradients[rank][1], bias.grad(), 1e-13, 1e-14));
    for (size_t i = 0; i < 2; ++i) {
      CHECK(at::equal(gradients[rank][i], gradients[0][i]));
      CHECK(at::equal(gradients[rank][i], again[rank][i]));
    }
  }
  if (c.size == 2) {  // a sum of two has one order
    const auto other = reducer_gradients(c.carrier == Carrier::kGloo ? Carrier::kInProcess : Carrier::kGloo, 2, data);
    for (size_t i = 0; i < 2; ++i) CHECK(at::equal(gradients[0][i], other[0][i]));
  }
}

TEST_CASE("a rank that throws frees the ones that wait for it", "[comm]") {
  const Case c = each_case(GENERATE(Carrier::kInProcess, Carrier::kGloo), GENERATE(2, 3, 4));
  CAPTURE(c);
  // 60 s of time-out are never waited for: Gloo's peers see the connection close, ours the abort.
  const auto work = [&](const RankEnd& end) {
    Tensors tensors = {at::ones({5})};
    end.all->allreduce(tensors)->wait();
    if (end.rank == 1) throw OutOfMemoryError("rank 1 is full");
    end.all->allreduce(tensors)->wait();
  };
  CHECK_THROWS_MATCHES(on_ranks_of(c.carrier, c.size, work), OutOfMemoryError, Catch::Message("rank 1 is full"));
}

}  // namespace
}  // namespace mgtrain
