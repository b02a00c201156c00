# LibTorch as the imported target mgtrain::torch, without find_package(Torch): that one demands nvcc where none is
# needed and sets no C++ standard. Looked for in CMAKE_PREFIX_PATH (an unpacked LibTorch, or site-packages/torch),
# then in the private environment .venv that scripts/setup.sh makes.
#
# Sets MGTRAIN_WITH_CUDA.

file(GLOB _venv_torch LIST_DIRECTORIES true ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
find_path(MGTRAIN_TORCH_ROOT include/torch/csrc/api/include/torch/torch.h
  HINTS ${CMAKE_PREFIX_PATH} ${_venv_torch}
  NO_CMAKE_SYSTEM_PATH NO_SYSTEM_ENVIRONMENT_PATH
  DOC "Folder of LibTorch that holds include/ and lib/")
if(NOT MGTRAIN_TORCH_ROOT)
  message(FATAL_ERROR "LibTorch not found: run scripts/setup.sh run, or give -DCMAKE_PREFIX_PATH=/path/to/libtorch")
endif()
get_filename_component(_site ${MGTRAIN_TORCH_ROOT} DIRECTORY)
set(_torch_lib ${MGTRAIN_TORCH_ROOT}/lib)
message(STATUS "LibTorch: ${MGTRAIN_TORCH_ROOT}")

find_package(OpenMP REQUIRED COMPONENTS CXX)

add_library(mgtrain_torch INTERFACE)
add_library(mgtrain::torch ALIAS mgtrain_torch)
target_include_directories(mgtrain_torch SYSTEM INTERFACE
  ${MGTRAIN_TORCH_ROOT}/include ${MGTRAIN_TORCH_ROOT}/include/torch/csrc/api/include)
target_compile_definitions(mgtrain_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
# parallel_apply is a header template over OpenMP: without -fopenmp it would run the replicas one after the other.
target_link_libraries(mgtrain_torch INTERFACE OpenMP::OpenMP_CXX ${_torch_lib}/libtorch_cpu.so ${_torch_lib}/libc10.so)
set(MGTRAIN_TORCH_RPATH ${_torch_lib})

# CUDA: the libraries must all resolve and a header must compile. Headers come from a toolkit, or from the wheel
# with nvidia-cuda-crt.
set(MGTRAIN_WITH_CUDA OFF)
if(NOT MGTRAIN_CUDA STREQUAL "OFF")
  set(_why "")
  set(_wheel_cuda ${_site}/nvidia/cu13)
  find_path(MGTRAIN_CUDA_INCLUDE cuda_runtime_api.h
    HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda/include ${_wheel_cuda}/include PATH_SUFFIXES include)
  find_library(MGTRAIN_CUDART NAMES cudart libcudart.so.13 HINTS ${_wheel_cuda}/lib ENV CUDA_HOME PATHS /usr/local/cuda/lib64)
  if(NOT EXISTS ${_torch_lib}/libtorch_cuda.so)
    set(_why "this LibTorch has no libtorch_cuda.so")
  elseif(NOT MGTRAIN_CUDA_INCLUDE)
    set(_why "no cuda_runtime_api.h found (install a CUDA toolkit, or nvidia-cuda-crt beside the wheel)")
  elseif(NOT MGTRAIN_CUDART)
    set(_why "no libcudart found")
  else()
    include(CMakePushCheckState)
    include(CheckCXXSourceCompiles)
    cmake_push_check_state(RESET)
    set(CMAKE_REQUIRED_FLAGS "-std=c++20 -Wl,-rpath,${_torch_lib}")
    set(CMAKE_REQUIRED_INCLUDES ${MGTRAIN_TORCH_ROOT}/include ${MGTRAIN_CUDA_INCLUDE})
    file(GLOB _nvidia_libs LIST_DIRECTORIES true ${_site}/nvidia/*/lib)
    set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,--no-as-needed)
    foreach(_dir IN LISTS _nvidia_libs)
      list(APPEND CMAKE_REQUIRED_LINK_OPTIONS -Wl,-rpath-link,${_dir})
    endforeach()
    set(CMAKE_REQUIRED_LIBRARIES ${_torch_lib}/libtorch_cuda.so ${_torch_lib}/libc10_cuda.so ${_torch_lib}/libtorch_cpu.so ${_torch_lib}/libc10.so ${MGTRAIN_CUDART})
    # The linker refuses a library whose own libraries do not resolve, which is what this asks.
    check_cxx_source_compiles("#include <c10/cuda/CUDAFunctions.h>\nint main() { return c10::cuda::device_count() > 99; }" MGTRAIN_CUDA_USABLE)
    cmake_pop_check_state()
    if(MGTRAIN_CUDA_USABLE)
      set(MGTRAIN_WITH_CUDA ON)
    else()
      set(_why "libtorch_cuda.so does not link with what is installed, or the CUDA headers do not compile")
    endif()
  endif()
  if(NOT MGTRAIN_WITH_CUDA AND MGTRAIN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MGTRAIN_CUDA=ON, but ${_why}")
  endif()
endif()

if(MGTRAIN_WITH_CUDA)
  message(STATUS "CUDA: on (headers ${MGTRAIN_CUDA_INCLUDE})")
  target_include_directories(mgtrain_torch SYSTEM INTERFACE ${MGTRAIN_CUDA_INCLUDE})
  foreach(_extra nvidia/nccl/include nvidia/cudnn/include)
    if(EXISTS ${_site}/${_extra})
      target_include_directories(mgtrain_torch SYSTEM INTERFACE ${_site}/${_extra})
    endif()
  endforeach()
  target_compile_definitions(mgtrain_torch INTERFACE USE_C10D_NCCL)
  # Nothing of ours may reference a symbol of libtorch_cuda, yet its kernels must be registered.
  target_link_options(mgtrain_torch INTERFACE -Wl,--no-as-needed)
  target_link_libraries(mgtrain_torch INTERFACE ${_torch_lib}/libtorch_cuda.so ${_torch_lib}/libc10_cuda.so ${_torch_lib}/libtorch.so ${MGTRAIN_CUDART})
  foreach(_dir IN LISTS _nvidia_libs)
    target_link_options(mgtrain_torch INTERFACE -Wl,-rpath-link,${_dir})
  endforeach()
else()
  message(STATUS "CUDA: off ${_why}")
endif()
