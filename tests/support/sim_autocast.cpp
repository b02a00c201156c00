#include "support/sim_autocast.h"

#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace mgtrain::sim {
namespace {

// The macro KERNEL_PRIVATEUSEONE expects a variable m.
void register_lists(torch::Library& m) {
#define MGTRAIN_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define MGTRAIN_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define MGTRAIN_FP32_OUTPUT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define MGTRAIN_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(MGTRAIN_LOWER_PRECISION)
  AT_FORALL_FP32(MGTRAIN_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(MGTRAIN_FP32_OUTPUT)
  AT_FORALL_PROMOTE(MGTRAIN_PROMOTE)
}

}  // namespace

void enable_autocast() {
  static auto* others =
      new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  others->fallback(torch::CppFunction::makeFallthrough());
  static auto* listed =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  register_lists(*listed);
}

}  // namespace mgtrain::sim
