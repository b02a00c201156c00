#!/usr/bin/env bash
# Fuzzes the parsers (tests/fuzz) with libFuzzer under AddressSanitizer and UBSan, one target after the other.
set -euo pipefail

usage() {
  cat <<'END'
Usage: scripts/fuzz.sh [--seconds N] [--seed N] [--no-save] [TARGET...]

  --seconds N   CPU seconds for each target (default 600)
  --seed N      of libFuzzer (default 1); of each further round of a target one more
  --no-save     leave tests/fuzz/corpus as it is
  TARGET        idx, png, ... (default: all, those of tests/fuzz/*_fuzz.cpp)

Builds into build/fuzz with clang++, starts from tests/fuzz/corpus/TARGET and what earlier runs left in
build/fuzz/work/TARGET, and stops a target at its first finding, whose input it keeps in build/fuzz/findings/TARGET.
Then reduces what was found to a small set with the same coverage, adds that to tests/fuzz/corpus/TARGET, and prints a
table; build/fuzz/table.txt keeps its lines. Exits 1 if there was a finding. A finding is run again by
  build/fuzz/tests/fuzz/TARGET_fuzz FILE    or, in any build with tests, by    tests/fuzz/TARGET_fuzz FILE
END
}

seconds=600 seed=1 save=yes targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=${2:?--seconds takes a number} && shift ;;
    --seed) seed=${2:?--seed takes a number} && shift ;;
    --no-save) save=no ;;
    -h | --help) usage && exit 0 ;;
    -*) echo "fuzz.sh: unknown argument '$1'" >&2 && usage >&2 && exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done
case $seconds$seed in *[!0-9]*) echo "fuzz.sh: --seconds and --seed take whole numbers" >&2 && exit 2 ;; esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
known=()
for file in tests/fuzz/*_fuzz.cpp; do known+=("$(basename "$file" _fuzz.cpp)"); done
for target in "${targets[@]}"; do
  [[ " ${known[*]} " == *" $target "* ]] || { echo "fuzz.sh: no target '$target'; there are: ${known[*]}" >&2 && exit 2; }
done
[ ${#targets[@]} -gt 0 ] || targets=("${known[@]}")

build=build/fuzz
mkdir -p $build
# Both compile and run: a clang without its runtime libraries is the usual lack.
if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
  clang++ -x c++ -std=c++20 -fsanitize=fuzzer,address,undefined -o $build/probe - 2>$build/probe.log; then
  cat $build/probe.log >&2
  echo "fuzz.sh: clang++ with libFuzzer and its sanitizers is needed (Debian: apt-get install clang libclang-rt-dev)" >&2
  exit 1
fi

flags="-Wno-unknown-warning-option"
cmake -S . -B $build -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -gline-tables-only" -DMGTRAIN_BASE_ONLY=ON \
  -DMGTRAIN_FUZZ=ON -DMGTRAIN_SANITIZE=fuzzer-no-link,address,undefined >$build/configure.log ||
  { cat $build/configure.log >&2 && exit 1; }
cmake --build $build --target fuzz_targets

# Memory of the process and of one allocation, and seconds for one input, above which it is a finding.
limits=(-rss_limit_mb=2048 -malloc_limit_mb=256 -timeout=10)

# fuzz TARGET: rounds of at most a minute until the CPU seconds are used up; sets executions, used, edges, findings.
fuzz() {
  local target=$1 program=$build/tests/fuzz/$1_fuzz work=$build/work/$1 log=$build/$1.log round=0 before after
  mkdir -p "$work" "$build/findings/$target"
  executions=0 used=0 edges=0 findings=0
  while [ $((used / 100)) -lt "$seconds" ] && [ $findings = 0 ]; do
    local left=$((seconds - used / 100)) # the processor is shared: rounds by the clock, added up by CPU time
    before=$(children_centiseconds)
    "$program" "${limits[@]}" -max_total_time=$((left < 60 ? left : 60)) -seed=$((seed + round)) -print_final_stats=1 \
      -max_len=16384 -artifact_prefix="$build/findings/$target/" "$work" "tests/fuzz/corpus/$target" >"$log" 2>&1 || findings=1
    after=$(children_centiseconds)
    used=$((used + after - before)) round=$((round + 1))
    local executed # none of a process that was killed
    executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    executions=$((executions + ${executed:-0}))
    edges=$(sed -nE 's/.* cov: ([0-9]+) .*/\1/p' "$log" | tail -n 1)
  done
  [ $findings = 0 ] || { tail -n 1 "$log" && grep -E '^(==[0-9]+==|SUMMARY|does not hold|terminate|  what|#[0-9] |    #[0-9] |.*runtime error)' "$log" | head -n 40; }
}

# children_centiseconds: user and system time of all finished children of this shell.
children_centiseconds() {
  local ticks
  read -ra ticks <"/proc/$$/stat"
  echo $(((ticks[15] + ticks[16]) * 100 / $(getconf CLK_TCK)))
}

# save TARGET: what covers the same with few and small inputs, beside the seeds.
save_corpus() {
  local target=$1 program=$build/tests/fuzz/$1_fuzz kept=$build/kept/$1 corpus=tests/fuzz/corpus/$1 file
  rm -rf "$kept" && mkdir -p "$kept/seeds" "$kept/new"
  cp "$corpus"/seed-* "$kept/seeds/"
  # The first folder is kept as it is; of the others comes what covers more code, whatever the number of rounds through it.
  "$program" "${limits[@]}" -set_cover_merge=1 -use_counters=0 -max_len=8192 "$kept/seeds" "$build/work/$target" "$corpus" >"$build/$target-merge.log" 2>&1 ||
    { tail -n 5 "$build/$target-merge.log" && return 1; }
  for file in "$kept"/seeds/*; do
    case $(basename "$file") in seed-*) ;; *) mv "$file" "$kept/new/$(basename "$file" | cut -c 1-12)" ;; esac
  done
  find "$corpus" -type f ! -name 'seed-*' ! -name 'finding-*' -delete
  # Up to 120 kB a target, the smallest first.
  (cd "$kept/new" && find . -type f -printf '%s %f\n' | sort -n | awk '{sum += $1; if (sum <= 120000) print $2}') |
    while IFS= read -r file; do cp "$kept/new/$file" "$corpus/"; done
}

failed=no
format='%-20s %12s %8s %7s %9s %s\n'
for target in "${targets[@]}"; do
  echo "fuzz: $target, $seconds CPU seconds"
  fuzz "$target"
  # shellcheck disable=SC2059
  printf "$format" "$target" "$executions" $((used / 100)) "$edges" $findings "$seed" | tee -a $build/table.txt
  if [ $findings != 0 ]; then
    failed=yes
  elif [ $save = yes ]; then
    save_corpus "$target"
  fi
done
echo
# shellcheck disable=SC2059
printf "$format" target executions "CPU s" edges findings seed
tail -n ${#targets[@]} $build/table.txt
[ $failed = no ]
