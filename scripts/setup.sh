#!/usr/bin/env bash
# Installs what mgtrain needs and this machine lacks; says what and how large before it does. Safe to run twice.
set -euo pipefail

usage() {
  cat <<'END'
Usage: scripts/setup.sh run|test|ci [--libtorch auto|cpu|cuda]

  run    what building and running mgtrain takes: compiler, CMake, small libraries (Debian packages) and
         LibTorch in the private environment .venv
  test   run, and what its tests take: Catch2, and Python's torch with torchvision, safetensors and tensorboard in
         .venv, to compare with (4.6 GB in all)
  ci     test, and the linters of scripts/test.sh --ci

  --libtorch cpu    the CPU-only part of LibTorch (1.3 GB)
  --libtorch cuda   all of it (4.6 GB)
  --libtorch auto   cpu where there is neither an NVIDIA GPU nor a CUDA toolkit, else cuda (default; run only)

A LibTorch unpacked elsewhere is used instead if CMAKE_PREFIX_PATH names it (run only). pip's and apt's own settings
(mirrors, proxies) hold. Needs root, or sudo, only if Debian packages are missing.
END
}

wanted_set="" libtorch=auto
while [ $# -gt 0 ]; do
  case $1 in
    run | test | ci) wanted_set=$1 ;;
    --libtorch=*) libtorch=${1#*=} ;;
    --libtorch) libtorch=${2:-} && [ $# -gt 1 ] && shift ;;
    -h | --help) usage && exit 0 ;;
    *) echo "setup.sh: unknown argument '$1'" >&2 && usage >&2 && exit 2 ;;
  esac
  shift
done
case $wanted_set in run | test | ci) ;; *) usage >&2 && exit 2 ;; esac
case $libtorch in auto | cpu | cuda) ;; *) echo "setup.sh: --libtorch is '$libtorch'; it must be auto, cpu or cuda" >&2 && exit 2 ;; esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
unset PYTHONHOME PYTHONPATH
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1
exec 9<"$root/scripts/setup.sh" && flock 9 # two set-ups at once would write into each other's .venv

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: error: %s\n' "$*" >&2 && exit 1; }
did_something=no

# ---------------------------------------------------------------- Debian packages

# version_of COMMAND: "3.25.1" of the first line of `COMMAND --version`, or nothing.
version_of() {
  local text
  text=$("$1" --version 2>/dev/null | head -n 1) || true
  [[ $text =~ ([0-9]+\.[0-9]+(\.[0-9]+)?) ]] && echo "${BASH_REMATCH[1]}"
}
at_least() { [ -n "$1" ] && [ "$(printf '%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

python_fits() {
  command -v "$1" >/dev/null &&
    "$1" -c 'import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null
}
find_python() {
  for python in python3 /usr/bin/python3 python3.13 python3.12 python3.11 python3.10; do
    if python_fits "$python"; then return 0; fi
  done
  return 1
}

debian_packages() {
  # Tools that are here already, from wherever, are not asked for.
  at_least "$(version_of g++)" 11 || echo g++
  at_least "$(version_of cmake)" 3.25 || echo cmake
  command -v ninja >/dev/null || echo ninja-build
  command -v pkg-config >/dev/null || echo pkg-config
  [ -x .venv/bin/python ] || find_python || echo python3-venv
  local libraries=(libcli11-dev libspdlog-dev libtomlplusplus-dev nlohmann-json3-dev zlib1g-dev libpng-dev libxxhash-dev libssl-dev libgloo-dev)
  [ "$wanted_set" = run ] || libraries+=(catch2)
  local installed
  installed=$(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' "${libraries[@]}" 2>/dev/null | sed -n 's/^ii *//p') || true # a package never heard of
  printf '%s\n' "${libraries[@]}" | grep -vxF -e "$installed" || true
  if [ "$wanted_set" = ci ]; then
    command -v clang-format >/dev/null || echo clang-format
    command -v clang-tidy >/dev/null || echo clang-tidy
  fi
}

install_debian_packages() {
  local missing=("$@") sudo=() quiet=(-q -o Acquire::Retries=3 -o Dpkg::Use-Pty=0)
  say "missing Debian packages: ${missing[*]}"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "installing them needs root: run as root, or let an administrator run: apt-get install ${missing[*]}"
    sudo=(sudo)
  fi
  say "bringing the package lists up to date (apt-get update)"
  "${sudo[@]}" apt-get "${quiet[@]}" update || say "warning: apt-get update failed; going on with the lists that are here"
  LC_ALL=C apt-get install --assume-no --no-install-recommends "${missing[@]}" 2>/dev/null |
    grep -E '^(Need to get|After this)' | sed 's/^/setup: /' || true
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${quiet[@]}" install -y --no-install-recommends "${missing[@]}" ||
    fail "apt-get install ${missing[*]} failed (its messages stand above)"
  did_something=yes
}

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  mapfile -t missing < <(debian_packages)
  [ ${#missing[@]} = 0 ] || install_debian_packages "${missing[@]}"
  mapfile -t missing < <(debian_packages)
  [ ${#missing[@]} = 0 ] || fail "still missing or too old after the install: ${missing[*]} (cmake must be 3.25 or newer, g++ 11 or newer; is an older one first in PATH?)"
else
  say "warning: no apt-get here. Install with this system's package manager: g++ >= 11, cmake >= 3.25, ninja, pkg-config," \
    "CLI11, spdlog, toml++, nlohmann-json, zlib, libpng, xxHash, OpenSSL, the headers of Gloo$([ "$wanted_set" = run ] || echo ', Catch2')"
fi

# ---------------------------------------------------------------- LibTorch and Python packages, in .venv

torch_version=2.11.0
cpu_packages=("torch==$torch_version" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
crt_package=nvidia-cuda-crt==13.0.88
test_packages=(torchvision==0.26.0 safetensors tensorboard numpy pillow)

has_nvidia_gpu() {
  [ -e /proc/driver/nvidia/version ] || [ -e /dev/nvidiactl ] && return 0
  [ -e /dev/dxg ] && command -v nvidia-smi >/dev/null && return 0 # Windows Subsystem for Linux
  local device
  for device in /sys/bus/pci/devices/*; do
    [ "$(cat "$device/vendor" 2>/dev/null)" = 0x10de ] && [[ $(cat "$device/class" 2>/dev/null) == 0x03* ]] && return 0
  done
  return 1
}

cuda_header_folders() {
  local folder
  for folder in "${CUDA_HOME:-}/include" "${CUDA_PATH:-}/include" /usr/local/cuda/include /usr/include; do
    [ -e "$folder/cuda_runtime_api.h" ] && echo "$folder"
  done
  return 0
}
has_cuda_toolkit() { command -v nvcc >/dev/null || [ -n "$(cuda_header_folders)" ]; }
# Headers that this LibTorch can be used with: whole, and of CUDA 13 (cmake/LibTorch.cmake asks the same).
has_cuda_13_headers() {
  local folder
  for folder in $(cuda_header_folders); do
    [ -e "$folder/crt/host_defines.h" ] && grep -qE 'define +CUDART_VERSION +13[0-9]{3}' "$folder/cuda_runtime_api.h" && return 0
  done
  return 1
}

given_libtorch() {
  local prefix prefixes
  IFS=':;' read -ra prefixes <<<"${CMAKE_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}"; do
    for folder in "$prefix" "$prefix/libtorch" "$prefix/torch" "$prefix/../.."; do
      [ -e "$folder/lib/libtorch_cpu.so" ] && (cd "$folder" && pwd) && return 0
    done
  done
  return 1
}

# venv_lacks [--no-deps] REQUIREMENT...: lines "missing X" and "damaged X", or nothing.
venv_lacks() { .venv/bin/python scripts/venv_missing.py "$@"; }
venv_works() { [ -x .venv/bin/python ] && .venv/bin/python -c 'import pip, sys; sys.exit(sys.version_info[:2] < (3, 10))' 2>/dev/null; }

free_mb() { df -Pm . | awk 'NR == 2 {print $4}'; }

install_python_packages() {
  local no_deps=()
  [ "$1" = --no-deps ] && no_deps=(--no-deps) && shift
  local lacking damaged
  lacking=$(venv_lacks "${no_deps[@]}" "$@") || fail ".venv/bin/python does not work; remove the folder .venv and run again"
  [ -n "$lacking" ] || return 0
  # What is about to come, in MB: to download, on disk.
  local download=0 disk=0 what=""
  if grep -qE '(missing|damaged) torch(==|$)' <<<"$lacking"; then
    download=540 disk=1300 what="LibTorch $torch_version"
  fi
  if [ ${#no_deps[@]} = 0 ] && grep -qE ' (cuda-toolkit|nvidia-(cudnn|nccl|cublas)|triton)' <<<"$lacking"; then
    download=$((download + 2160)) disk=$((disk + 3200)) what="${what:+$what, }its CUDA 13.0 libraries"
  fi
  local rest
  rest=$(sed -nE 's/^(missing|damaged) ([A-Za-z0-9._-]+).*/\2/p' <<<"$lacking" |
    grep -vE '^(torch|cuda-toolkit|cuda-bindings|nvidia-.*|triton|filelock|typing-extensions|sympy|networkx|jinja2|fsspec)$' | paste -sd ' ') || true
  [ -z "$rest" ] || { download=$((download + 70)) && disk=$((disk + 200)) && what="${what:+$what, }$rest"; }
  [ -n "$what" ] || what=$(sed -nE 's/^(missing|damaged) //p' <<<"$lacking" | paste -sd ' ')
  say "into .venv: $what (about $download MB to download, $disk MB on disk)"
  [ "$(free_mb)" -gt $((disk + download)) ] ||
    fail "$root has $(free_mb) MB free; $((disk + download)) MB are needed (downloads lie beside what is installed for a while)"
  damaged=$(sed -n 's/^damaged //p' <<<"$lacking")
  if [ -n "$damaged" ]; then
    say "not whole, installed again: $(paste -sd ' ' <<<"$damaged")"
    # shellcheck disable=SC2086
    .venv/bin/python -m pip install --force-reinstall --no-deps $damaged || fail "pip failed (its messages stand above)"
  fi
  .venv/bin/python -m pip install "${no_deps[@]}" "$@" || fail "pip failed (its messages stand above); running this again goes on from here"
  lacking=$(venv_lacks "${no_deps[@]}" "$@")
  [ -z "$lacking" ] || fail "pip said that all is well, but .venv lacks: $(paste -sd ';' <<<"$lacking")"
  did_something=yes
}

if [ "$wanted_set" = run ] && given=$(given_libtorch); then
  say "LibTorch is given through CMAKE_PREFIX_PATH: $given"
else
  whole=yes
  if [ "$wanted_set" = run ]; then
    case $libtorch in
      cpu) whole=no ;;
      auto) if ! has_nvidia_gpu && ! has_cuda_toolkit; then whole=no; fi ;;
    esac
  fi
  if ! venv_works; then
    find_python || fail "no Python 3.10 to 3.14 with the modules venv and ensurepip (Debian: apt-get install python3-venv)"
    if [ -e .venv ]; then
      [ -e .venv/pyvenv.cfg ] || fail "$root/.venv is not a Python environment; move it away"
      say "the Python of .venv is gone: making the environment anew"
    fi
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv || fail "$python -m venv failed"
    did_something=yes
  fi
  if [ $whole = no ]; then
    install_python_packages --no-deps "${cpu_packages[@]}"
  else
    packages=("${cpu_packages[@]}")
    has_cuda_13_headers || packages+=("$crt_package")
    [ "$wanted_set" = run ] || packages+=("${test_packages[@]}")
    install_python_packages "${packages[@]}"
  fi
  # What .venv holds, for a person and for CMake, which looks at LibTorch again when this file changes.
  if [ $did_something = yes ] || [ ! -e .venv/mgtrain-setup.txt ]; then
    .venv/bin/python -m pip list --format=freeze >.venv/mgtrain-setup.txt
  fi
fi

if [ $did_something = yes ]; then say "done: everything for '$wanted_set' is installed"; else say "everything for '$wanted_set' is installed: nothing to do"; fi
