#!/usr/bin/env bash
# Configures and builds one preset. Usage: scripts/build.sh PRESET [-DNAME=VALUE...] [TARGET...]
set -euo pipefail

[ $# -ge 1 ] || { echo "Usage: scripts/build.sh release|cpu|sanitize [-DNAME=VALUE...] [TARGET...]" >&2 && exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1 && shift
settings=() targets=()
for argument in "$@"; do
  case $argument in -D*) settings+=("$argument") ;; *) targets+=(--target "$argument") ;; esac
done

# A build folder that came along with a copied or moved source tree is of no use to CMake.
cache=build/$preset/CMakeCache.txt
if [ -e "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$cache"; then
  echo "build: build/$preset was made for another source folder; starting it anew"
  rm -rf "build/$preset"
fi

# As many compilers as cores, and no more than one for each 1.5 GB of memory: a file with torch.h takes over 1 GB.
cores=$(nproc)
memory=$(awk '/MemAvailable/ {print int($2 / 1024 / 1500)}' /proc/meminfo)
jobs=$((memory < 1 ? 1 : memory < cores ? memory : cores))

log=$(mktemp) && trap 'rm -f "$log"' EXIT
if cmake --preset "$preset" "${settings[@]}" >"$log" 2>&1; then
  grep -E '^-- (LibTorch|CUDA)|[Ww]arning' "$log" | sed 's/^-- /build: /' || true
else
  cat "$log" >&2
  exit 1
fi
echo "build: preset $preset into build/$preset, $jobs at a time${settings[*]:+, ${settings[*]}}"
NINJA_STATUS='[%f/%t %es] ' cmake --build "build/$preset" --parallel "$jobs" "${targets[@]}"
