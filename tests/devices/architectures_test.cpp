#include "devices/architectures.h"

#include "support/catch.h"

using namespace mgtrain;
using Texts = std::vector<std::string>;

TEST_CASE("architectures are read from nvcc's flags as LibTorch reports them", "[devices]") {
  CHECK(parse_architectures(
            "  - CUDA Runtime 13.0\n  - NVCC architecture flags: -gencode;arch=compute_75,code=sm_75;"
            "-gencode;arch=compute_90,code=sm_90;-gencode;arch=compute_90,code=compute_90\n  - CuDNN 9") ==
        Texts{"sm_75", "sm_90", "compute_90"});
  CHECK(parse_architectures("-gencode=arch=compute_80,code=[sm_80,compute_80] -gencode arch=compute_90a,code=sm_90a") ==
        Texts{"sm_80", "compute_80", "sm_90a"});
  CHECK(parse_architectures("no flags here, code=").empty());
  CHECK(parse_architectures("").empty());
}

TEST_CASE("machine code runs within its major version, PTX on everything newer", "[devices]") {
  const Texts wheel{"sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"};  // torch 2.11.0+cu130
  CHECK_FALSE(runs_on(wheel, 6, 1));
  CHECK_FALSE(runs_on(wheel, 7, 0));  // Volta
  CHECK(runs_on(wheel, 7, 5));
  CHECK(runs_on(wheel, 8, 0));
  CHECK(runs_on(wheel, 8, 9));  // Ada runs sm_86 code
  CHECK(runs_on(wheel, 9, 0));
  CHECK(runs_on(wheel, 10, 3));
  CHECK_FALSE(runs_on(wheel, 11, 0));
  CHECK(runs_on(wheel, 12, 1));
  CHECK(runs_on({"sm_80", "compute_80"}, 12, 0));
  CHECK_FALSE(runs_on({"compute_90"}, 8, 9));
  CHECK(runs_on({"sm_90a"}, 9, 0));
  CHECK_FALSE(runs_on({"sm_100a"}, 10, 3));
  CHECK(runs_on({"sm_100f"}, 10, 3));
  CHECK_FALSE(runs_on({}, 9, 0));
}
