#!/usr/bin/env bash
# Brings whole data sets, checked by their published checksums. Safe to run twice; a download that broke off goes on.
set -euo pipefail

usage() {
  cat <<'END'
Usage: scripts/get_data.sh fashion-mnist|cifar10 [DESTINATION]

  fashion-mnist   60,000 + 10,000 images of 28 x 28 from Debian's package dataset-fashion-mnist (31 MB), without
                  installing it, into data/fashion-mnist
  cifar10         50,000 + 10,000 images of 32 x 32 in colour from https://www.cs.toronto.edu/~kriz/cifar.html (170 MB
                  to fetch, 184 MB unpacked) into data/cifar-10-batches-bin

MGTRAIN_CIFAR10_URL names another place to fetch cifar-10-binary.tar.gz from; its checksum must be the same. Proxies:
those of curl, wget and apt. Needs no root.
END
}

cifar10_url=${MGTRAIN_CIFAR10_URL:-https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz}
cifar10_md5=c32a1d4ab5d03f1284b67883e8d87530
# Of the four files, unpacked: those inside the packages and mirrors are packed differently.
fashion_mnist_md5="f4a8712d7a061bf5bd6d2ca38dc4d50a train-images-idx3-ubyte
9018921c3c673c538a1fc5bad174d6f9 train-labels-idx1-ubyte
8181f5470baa50b63fa0f6fddb340f0a t10k-images-idx3-ubyte
15d484375f8d13e6eb1aabb0c3f46965 t10k-labels-idx1-ubyte"

say() { printf 'get_data: %s\n' "$*"; }
fail() { printf 'get_data: error: %s\n' "$*" >&2 && exit 1; }

case ${1:-} in
  -h | --help) usage && exit 0 ;;
  fashion-mnist) folder=fashion-mnist megabytes=70 ;;
  cifar10) folder=cifar-10-batches-bin megabytes=540 ;;
  *) usage >&2 && exit 2 ;;
esac
[ $# -le 2 ] || { usage >&2 && exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
destination=${2:-$root/data/$folder}
created=no
[ -d "$destination" ] || created=yes
mkdir -p "$destination" || fail "the folder $destination cannot be made"
destination=$(cd "$destination" && pwd)
exec 9<"$destination" && flock 9 # two downloads at once would write into one file

scratch=""
clean_up() {
  [ -z "$scratch" ] || rm -rf "$scratch"
  [ $created = no ] || rmdir "$destination" 2>/dev/null || true # if nothing came into it
}
trap clean_up EXIT
# A folder on the destination's disk, so that what is whole arrives there by a rename; after the check that it is needed.
make_scratch() {
  local free
  free=$(df -Pm "$destination" | awk 'NR == 2 {print $4}')
  [ "$free" -ge "$megabytes" ] || fail "$destination has $free MB free; $megabytes MB are needed"
  scratch=$(mktemp -d "$destination/.get_data.XXXXXX")
}

# ---------------------------------------------------------------- Fashion-MNIST

# fashion_mnist_fault FOLDER: the first of its files that is not as published, or nothing.
fashion_mnist_fault() {
  local md5 name
  while read -r md5 name; do
    [ -e "$1/$name.gz" ] || { echo "$name.gz is missing" && return; }
    [ "$(gzip -dc "$1/$name.gz" 2>/dev/null | md5sum | cut -d ' ' -f 1)" = "$md5" ] ||
      { echo "$name.gz is not as published (MD5 of the unpacked file: $md5)" && return; }
  done <<<"$fashion_mnist_md5"
}

get_fashion_mnist() {
  local source=/usr/share/datasets/fashion-mnist documents=/usr/share/doc/dataset-fashion-mnist fault name
  fault=$(fashion_mnist_fault "$destination")
  [ -n "$fault" ] || { say "$destination holds Fashion-MNIST, as published: nothing to do" && return; }
  make_scratch
  if [ -z "$(fashion_mnist_fault $source)" ]; then
    say "copying from the installed package dataset-fashion-mnist"
  else
    command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
      fail "no apt-get here. Put the four files of https://github.com/zalandoresearch/fashion-mnist into $destination and run this again to check them"
    say "fetching Debian's package dataset-fashion-mnist (31 MB)"
    # apt checks the package against the signed lists; _apt, as whom root fetches, must be able to write here.
    chmod 755 "$scratch"
    if ! (cd "$scratch" && apt-get -q -o APT::Sandbox::User=root -o Acquire::Retries=3 download dataset-fashion-mnist); then
      [ "$(id -u)" != 0 ] || { say "bringing the package lists up to date" && apt-get -q update; } || true
      (cd "$scratch" && apt-get -q -o APT::Sandbox::User=root -o Acquire::Retries=3 download dataset-fashion-mnist) ||
        fail "apt-get could not fetch dataset-fashion-mnist (its messages stand above). Is there a network, and are the package lists there (apt-get update)?"
    fi
    dpkg -x "$scratch"/dataset-fashion-mnist_*.deb "$scratch/package" || fail "the package cannot be unpacked"
    source=$scratch/package$source documents=$scratch/package$documents
    fault=$(fashion_mnist_fault "$source")
    [ -z "$fault" ] || fail "the package's $fault"
  fi
  mkdir "$scratch/set"
  while read -r _ name; do cp "$source/$name.gz" "$scratch/set/"; done <<<"$fashion_mnist_md5"
  cp "$documents/copyright" "$scratch/set/LICENSE" 2>/dev/null || true # MIT, Zalando SE
  sed 's/ subset"/"/' "$root/data/fashion-mnist-subset/dataset.json" >"$scratch/set/dataset.json"
  mv -f "$scratch"/set/* "$destination/"
  say "done: $destination"
}

# ---------------------------------------------------------------- CIFAR-10

cifar10_files=(data_batch_1.bin data_batch_2.bin data_batch_3.bin data_batch_4.bin data_batch_5.bin test_batch.bin batches.meta.txt)

cifar10_is_whole() { # by the checksums noted when the archive was unpacked
  (cd "$destination" && [ -e md5sums.txt ] && [ "$(wc -l <md5sums.txt)" = ${#cifar10_files[@]} ] &&
    md5sum --status --check md5sums.txt 2>/dev/null)
}

# fetch URL FILE: goes on where FILE ends.
fetch() {
  local bar=()
  if command -v curl >/dev/null; then
    [ -t 2 ] && bar=(--progress-bar) || bar=(--silent --show-error)
    curl "${bar[@]}" --fail --location --retry 3 --connect-timeout 30 --continue-at - --output "$2" "$1"
  elif command -v wget >/dev/null; then
    [ -t 2 ] && bar=(--quiet --show-progress) || bar=(--no-verbose)
    wget "${bar[@]}" --tries 3 --timeout 30 --continue --output-document "$2" "$1"
  else
    echo "neither curl nor wget is installed" >&2 && return 1
  fi
}

get_cifar10() {
  local archive=$destination/cifar-10-binary.tar.gz name size
  if cifar10_is_whole; then say "$destination holds CIFAR-10, as it was unpacked: nothing to do" && return; fi
  make_scratch
  is_archive() { [ -e "$archive" ] && [ "$(md5sum <"$archive" | cut -d ' ' -f 1)" = $cifar10_md5 ]; }
  if ! is_archive; then
    say "fetching $cifar10_url (170 MB)"
    fetch "$cifar10_url" "$archive" || {
      [ -s "$archive" ] || rm -f "$archive"
      fail "it cannot be fetched (the reason stands above). Run this again to go on, name a mirror with MGTRAIN_CIFAR10_URL, or bring the archive to $archive by other means and run this again"
    }
    is_archive || {
      size=$(wc -c <"$archive")
      rm -f "$archive"
      fail "what came from $cifar10_url ($size bytes) is not the archive (MD5 $cifar10_md5); it is removed: run this again"
    }
  fi
  say "unpacking"
  mkdir "$scratch/set"
  tar -xzf "$archive" -C "$scratch/set" --no-same-owner --strip-components 1 || fail "$archive cannot be unpacked"
  for name in "${cifar10_files[@]}"; do
    [ -s "$scratch/set/$name" ] || fail "the archive holds no $name"
  done
  (cd "$scratch/set" && md5sum "${cifar10_files[@]}" >md5sums.txt)
  mv -f "$scratch"/set/* "$destination/"
  rm -f "$archive"
  say "done: $destination"
}

case $1 in
  fashion-mnist) get_fashion_mnist ;;
  cifar10) get_cifar10 ;;
esac
