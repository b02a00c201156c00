#!/usr/bin/env bash
# From a fresh clone to a trained network: installs what is missing, builds mgtrain, trains ResNet18 on the images in
# data/, scores it, classifies a picture, and says where everything lies.
set -euo pipefail

usage() {
  cat <<'END'
Usage: scripts/quickstart.sh [FLAG...]

Flags go to `mgtrain train`, after configs/quickstart.toml: --epochs 1, --gpus cpu:2, --strategy dp, ...
Works on whatever devices this machine has; each call makes a new folder under runs/.
END
}
case ${1:-} in -h | --help) usage && exit 0 ;; esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
mgtrain=build/release/mgtrain
step() { printf '\n=== %s\n' "$*"; }

step "1/5  what is missing on this machine (compiler, libraries, LibTorch in .venv)"
scripts/setup.sh run

step "2/5  build $mgtrain (the first time some minutes; about 0.3 GB in build/release)"
# The tests need Catch2, which belongs to scripts/test.sh; a build folder that has them keeps them.
if grep -qs '^Catch2_DIR:PATH=/' build/release/CMakeCache.txt && grep -qs '^MGTRAIN_TESTS:BOOL=ON' build/release/CMakeCache.txt; then
  scripts/build.sh release mgtrain
else
  scripts/build.sh release -DMGTRAIN_TESTS=OFF mgtrain
fi

step "3/5  train: mgtrain --config configs/quickstart.toml $*"
output=$(mktemp) && trap 'rm -f "$output"' EXIT
"$mgtrain" --config configs/quickstart.toml "$@" | tee "$output"
last_line=$(tail -n 1 "$output")
run=${last_line##*run=}
[[ $last_line == mgtrain:\ done* && -d $run ]] || { echo "quickstart: no run folder in mgtrain's last line: $last_line" >&2 && exit 1; }

step "4/5  score it on the test images: mgtrain eval $run"
"$mgtrain" eval "$run"

picture=$(find data -name 't10k-images*.gz' | sort | head -n 1):0
step "5/5  classify a picture: mgtrain predict $run $picture --topk 3"
"$mgtrain" predict "$run" "$picture" --topk 3

cat <<END

=== all done
  program    $PWD/$mgtrain
  this run   $PWD/$run
             metrics.jsonl, TensorBoard events, summary.json, log.txt, checkpoints/, best/
  by name    export PATH="$PWD/build/release:\$PATH"
  then       mgtrain --gpus 0,1 --batch 256      two GPUs (on a machine without any: two CPU replicas, announced)
             mgtrain plan --gpus cpu:2           what a run would do, without doing it
             mgtrain devices                     what is here
             mgtrain --help
  tests      scripts/test.sh
END
