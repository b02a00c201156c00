// What replicas must compute: one model that runs their chunks in replica order.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "data/epoch_order.h"
#include "model/resnet.h"
#include "parallel/thread_count.h"

namespace mgtrain::test {

inline at::Tensor layout(const at::Tensor& images, bool channels_last) {
  return channels_last ? images.contiguous(at::MemoryFormat::ChannelsLast) : images;
}

/// Forward on one intra-op thread, backward on `backward_threads` (0: one a chunk, as CPU replicas have), replica 0's
/// statistics.
inline void reference_gradients(Classifier& net, const Batch& batch, size_t replicas, bool channels_last,
                                int backward_threads = 0) {
  net.zero_grad();
  std::vector<int64_t> shares = even_shares(batch.count(), static_cast<int64_t>(replicas));
  std::erase(shares, 0);
  const auto images = layout(batch.images, channels_last).split_with_sizes(shares);
  const auto labels = batch.labels.split_with_sizes(shares);
  at::Tensor loss;
  {
    const ThreadCountGuard one(1);
    std::vector<at::Tensor> statistics;
    for (size_t i = 0; i < shares.size(); ++i) {
      const at::Tensor part =
          at::cross_entropy_loss(net.forward(images[i]), labels[i], {}, at::Reduction::Sum) / batch.count();
      loss = loss.defined() ? loss + part : part;
      if (i == 0)
        for (const at::Tensor& buffer : net.buffers()) statistics.push_back(buffer.clone());
    }
    const auto buffers = net.buffers();
    for (size_t i = 0; i < buffers.size(); ++i) buffers[i].variable_data().copy_(statistics[i]);
  }
  const ThreadCountGuard threads(backward_threads > 0 ? backward_threads : static_cast<int>(replicas));
  loss.backward();
}

/// The book chapter's form: every device keeps a copy with an optimizer of its own; gradients are averaged on the
/// primary, sent back, and each copy updates itself.
class SelfUpdatingCopies {
 public:
  /// One update of a copy with its gradients.
  using Update = std::function<void()>;

  SelfUpdatingCopies(std::vector<std::shared_ptr<Classifier>> nets,
                     const std::function<Update(Classifier&)>& make_optimizer)
      : copies(std::move(nets)) {
    for (const auto& copy : copies) updates_.push_back(make_optimizer(*copy));
  }

  void step(const Batch& batch, bool channels_last = false) {
    const auto shares = even_shares(batch.count(), static_cast<int64_t>(copies.size()));
    const auto images = layout(batch.images, channels_last).split_with_sizes(shares);
    const auto labels = batch.labels.split_with_sizes(shares);
    for (size_t i = 0; i < copies.size(); ++i) {
      copies[i]->zero_grad();
      at::Tensor loss;
      {
        const ThreadCountGuard one(1);
        loss = at::cross_entropy_loss(copies[i]->forward(images[i]), labels[i], {}, at::Reduction::Sum) / batch.count();
      }
      const ThreadCountGuard threads(static_cast<int>(copies.size()));
      loss.backward();
    }
    for (size_t p = 0; p < copies[0]->parameters().size(); ++p) {
      at::Tensor average = torch::zeros_like(copies[0]->parameters()[p]);
      for (const auto& copy : copies) average += copy->parameters()[p].grad();
      for (const auto& copy : copies) copy->parameters()[p].mutable_grad() = average.clone();
    }
    for (const Update& update : updates_) update();
  }

  std::vector<std::shared_ptr<Classifier>> copies;

 private:
  std::vector<Update> updates_;
};

}  // namespace mgtrain::test
