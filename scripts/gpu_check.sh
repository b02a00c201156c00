#!/bin/bash
# Runs every [gpu] test, one after the other, and prints a table: what passed, what failed, what could not be run here.
# usage: scripts/gpu_check.sh [BUILD_FOLDER]     (default build/release, built if the tests are missing there)
# exit:  0 all that could run passed; 1 a test failed; 77 nothing could be run (no usable GPU)
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build/release}
tests=$build/tests/mgtrain_core_tests

if [ ! -x "$tests" ]; then
  echo "gpu_check: building the tests in $build"
  if [ ! -f "$build/CMakeCache.txt" ]; then
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release || exit 1
  fi
  cmake --build "$build" --target mgtrain_core_tests || exit 1
fi

echo "gpu_check: $(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
if command -v nvidia-smi >/dev/null && gpus=$(nvidia-smi --query-gpu=index,name,memory.total,driver_version --format=csv,noheader 2>/dev/null); then
  sed 's/^/gpu_check: GPU /' <<<"$gpus"
else
  echo "gpu_check: no GPU that nvidia-smi can see"
fi

# Catch2 version 2, then 3; the filter's tag is enough to select hidden tests.
names=$("$tests" --list-test-names-only "[gpu]" 2>/dev/null) || true
if [ -z "$names" ]; then
  names=$("$tests" --list-tests --verbosity quiet "[gpu]" 2>/dev/null)
fi
if [ -z "$names" ]; then
  echo "gpu_check: $tests holds no [gpu] test" >&2
  exit 1
fi

passed=0 failed=0 skipped=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
printf '\n| %-76s | %-8s | %9s |\n|%s|%s|%s|\n' test result "seconds" "$(printf -- '-%.0s' {1..78})" "$(printf -- '-%.0s' {1..10})" "$(printf -- '-%.0s' {1..11})"
while IFS= read -r name; do
  [ -n "$name" ] || continue
  start=$(date +%s.%N)
  # A comma separates test specs, a bracket opens a tag.
  "$tests" "$(sed 's/[][,\\]/\\&/g' <<<"$name")" -w NoTests >"$output" 2>&1
  code=$?
  seconds=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
  if [ $code -ne 0 ]; then
    result=FAILED failed=$((failed + 1))
    cp "$output" "$build/gpu_check_failure_$failed.log"
  elif grep -q "not run:" "$output"; then
    result="not run" skipped=$((skipped + 1))
  else
    result=passed passed=$((passed + 1))
  fi
  printf '| %-76s | %-8s | %9s |\n' "$name" "$result" "$seconds"
done <<<"$names"

echo
echo "gpu_check: $passed passed, $failed failed, $skipped not run (they need more GPUs than this machine has)"
if [ $failed -gt 0 ]; then
  for log in $(seq 1 $failed); do echo "gpu_check: see $build/gpu_check_failure_$log.log"; done
  exit 1
fi
if [ $passed -eq 0 ]; then
  echo "gpu_check: nothing was checked: not yet measured on a GPU"
  exit 77
fi
