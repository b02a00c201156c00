#!/usr/bin/env bash
# Installs what the tests need, builds, runs them all. With --ci: everything CI checks.
set -uo pipefail

usage() {
  cat <<'END'
Usage: scripts/test.sh [--ci] [--ctest ARGUMENT...]

  (nothing)   scripts/setup.sh test; build the preset release; run all its tests
  --ci        the same with CUDA on, and: the CPU-only variant, the torch-free part under AddressSanitizer and
              UBSan, the tests on simulated devices too, clang-format, clang-tidy, the scripts' syntax, an
              installed and moved tree
  --ctest     what follows goes to ctest, such as --ctest -R parallel

Ends with the time of each part and a line "N passed, N failed"; exits 0 only if nothing failed.
END
}

ci=no ctest_arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --ci) ci=yes ;;
    --ctest) shift && ctest_arguments=("$@") && break ;;
    -h | --help) usage && exit 0 ;;
    *) echo "test.sh: unknown argument '$1'" >&2 && usage >&2 && exit 2 ;;
  esac
  shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
table=() failed_parts=() passed=0 failed=0

# part NAME COMMAND...: runs it, notes its time and result; a part counts as one check unless it is a ctest run.
part() {
  local name=$1 start=$SECONDS result=ok
  shift
  printf '\n===== %s\n' "$name"
  if "$@"; then
    [ "$1" = run_ctest ] || passed=$((passed + 1))
  else
    result=FAILED
    failed_parts+=("$name")
    [ "$1" = run_ctest ] || failed=$((failed + 1))
  fi
  table+=("$(printf '%6d s  %-7s %s' $((SECONDS - start)) "$result" "$name")")
  [ $result = ok ]
}

# run_ctest PRESET ARGUMENT...: ctest's own output, and its numbers added to ours.
run_ctest() {
  local preset=$1 log=$scratch/ctest.log status numbers
  shift
  # Threads that wait by spinning slow each other down where two tests run at a time.
  OMP_WAIT_POLICY=passive ctest --preset "$preset" --no-tests=error -j "$(nproc)" "$@" </dev/null 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  if [[ $(grep -E 'tests passed, [0-9]+ tests? failed out of' "$log") =~ ([0-9]+)\ tests?\ failed\ out\ of\ ([0-9]+) ]]; then
    numbers=("${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}")
    failed=$((failed + numbers[0])) passed=$((passed + numbers[1] - numbers[0]))
  elif [ "$status" != 0 ]; then
    failed=$((failed + 1))
  fi
  return "$status"
}

sources() { find src tests bench -name '*.cpp' -o -name '*.h' 2>/dev/null | sort; }

check_scripts() {
  local file bad=0
  for file in scripts/*.sh .ci/run; do bash -n "$file" || bad=1; done
  while IFS= read -r file; do
    .venv/bin/python - "$file" <<'END' || bad=1
import ast, sys
ast.parse(open(sys.argv[1], encoding="utf-8").read(), sys.argv[1])
END
  done < <(find scripts tests -name '*.py' | sort)
  if command -v shellcheck >/dev/null; then shellcheck -S warning scripts/*.sh .ci/run || bad=1; fi
  return $bad
}

check_format() {
  local program
  program=$(command -v clang-format-14 || command -v clang-format) || return 1
  if ! "$program" --version | grep -q 'version 14\.'; then
    echo "$("$program" --version): releases format differently; the sources follow 14, so nothing is checked"
    return 0
  fi
  sources | xargs "$program" --dry-run --Werror && echo "$(sources | wc -l) files as .clang-format has them"
}

check_tidy() { # the torch-free sources, as the sanitize preset compiles them
  local list=build/sanitize/generated/mgtrain_base_sources.txt
  sed '/^$/d; s|^|src/|' $list | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build/sanitize --extra-arg=-Wno-unknown-warning-option --warnings-as-errors='*' &&
    echo "$(grep -c . $list) files without a finding"
}

check_install() { # PRESET: installed, moved, started from another folder
  local preset=$1 tree=$scratch/$1-moved
  cmake --install "build/$preset" --prefix "$scratch/$preset-installed" >"$scratch/install.log" || { cat "$scratch/install.log" && return 1; }
  mv "$scratch/$preset-installed" "$tree" || return 1
  if ldd "$tree/bin/mgtrain" | grep 'not found'; then return 1; fi
  if [ "$preset" = cpu ] && ldd "$tree/bin/mgtrain" | grep -F "$PWD/"; then
    echo "the installed CPU variant still loads libraries from the source tree" && return 1
  fi
  (cd / && "$tree/bin/mgtrain" --version && "$tree/bin/mgtrain" plan --gpus cpu:2 --output "$scratch/never-made") || return 1
  du -sh "$tree"
  rm -rf "$tree"
}

finish() {
  printf '\n===== times (%s cores%s)\n' "$(nproc)" "$(command -v ccache >/dev/null && echo ', ccache at hand')"
  printf '%s\n' "${table[@]}"
  printf '%6d s  in all\n' $SECONDS
  [ ${#failed_parts[@]} = 0 ] || printf '\nfailed: %s\n' "$(printf '%s; ' "${failed_parts[@]}" | sed 's/; $//')"
  printf '\n%d passed, %d failed\n' "$passed" "$failed"
  [ ${#failed_parts[@]} = 0 ] && [ "$failed" = 0 ]
}

if [ $ci = no ]; then
  part "set-up" scripts/setup.sh test &&
    part "build (preset release)" scripts/build.sh release -DMGTRAIN_TESTS=ON &&
    part "tests (preset release)" run_ctest release "${ctest_arguments[@]}"
  finish
  exit
fi

if part "set-up" scripts/setup.sh ci; then
  part "syntax of the scripts" check_scripts
  part "clang-format" check_format
  if part "build of the torch-free part with ASan and UBSan" scripts/build.sh sanitize; then
    part "torch-free tests under ASan and UBSan" run_ctest sanitize "${ctest_arguments[@]}"
    part "clang-tidy over the torch-free part" check_tidy
  fi
  if part "build with CUDA (preset release)" scripts/build.sh release -DMGTRAIN_CUDA=ON -DMGTRAIN_TESTS=ON all benchmarks; then
    part "tests with CUDA (preset release)" run_ctest release "${ctest_arguments[@]}"
    part "installed and moved, with CUDA" check_install release
  fi
  if part "build without CUDA (preset cpu)" scripts/build.sh cpu -DMGTRAIN_TESTS=ON; then
    # The torch-free tests have run twice already, and the mutants are the same code.
    part "tests without CUDA (preset cpu)" run_ctest cpu -E '^mgtrain_base_tests|^simulated.mutants' "${ctest_arguments[@]}"
    part "installed and moved, without CUDA" check_install cpu
  fi
  if part "build of the simulated devices with ASan and UBSan" scripts/build.sh sanitize-torch mgtrain_sim_tests; then
    part "simulated devices under ASan and UBSan" run_ctest sanitize-torch "${ctest_arguments[@]}"
  fi
fi
finish
