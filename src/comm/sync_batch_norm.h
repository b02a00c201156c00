// BatchNorm over the samples of all ranks of a group, as one device would compute it on all of them. Ioffe and Szegedy,
// "Batch Normalization", 2015. Stands here, below model/ and parallel/, because both know it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

namespace c10d {
class ProcessGroup;
}
namespace torch::nn {
class BatchNorm2dImpl;
}

namespace mgtrain {

/// What `layer` does in training mode, with the statistics of all ranks' samples. x_NCHW: floating, this rank's samples
/// in either memory format, perhaps none (N = 0); at least one rank has some. Of 16-bit types, statistics and gradients
/// of the parameters are the layer's float32.
///
/// Collective, here and once more in the backward pass of x: each rank calls it for the same layers in the same order,
/// and differentiates by x on all ranks or on none. Running statistics become the same bits on all ranks if they were;
/// the gradients of weight and bias are sums over this rank's samples. Nothing waits for the device. A group of one
/// rank is the layer itself.
at::Tensor sync_batch_norm(torch::nn::BatchNorm2dImpl& layer, const at::Tensor& x_NCHW,
                           const c10::intrusive_ptr<c10d::ProcessGroup>& group);

}  // namespace mgtrain
