#!/usr/bin/env bash
# scripts/get_data.sh without a network: a small archive in the place of CIFAR-10's, through a file:// URL. Usage:
# get_data_test.sh SOURCE_DIR
set -u

source=$1
command -v curl >/dev/null || { echo "skipped: wget cannot fetch file:// URLs, and curl is not installed" && exit 0; }
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
failures=0
check() { # TEXT COMMAND...
  local text=$1
  shift
  "$@" || { echo "FAILED: $text" && failures=$((failures + 1)); }
}

# The archive, and the script expecting its checksum.
mkdir -p "$scratch/made/cifar-10-batches-bin" "$scratch/tree/scripts" "$scratch/tree/data/fashion-mnist-subset"
for name in data_batch_{1..5} test_batch; do head -c 3073 /dev/urandom >"$scratch/made/cifar-10-batches-bin/$name.bin"; done
echo airplane >"$scratch/made/cifar-10-batches-bin/batches.meta.txt"
echo page >"$scratch/made/cifar-10-batches-bin/readme.html"
tar -czf "$scratch/archive.tar.gz" -C "$scratch/made" cifar-10-batches-bin
md5=$(md5sum <"$scratch/archive.tar.gz" | cut -d ' ' -f 1)
sed "s/^cifar10_md5=.*/cifar10_md5=$md5/" "$source/scripts/get_data.sh" >"$scratch/tree/scripts/get_data.sh"
cp "$source/data/fashion-mnist-subset/dataset.json" "$scratch/tree/data/fashion-mnist-subset/"
get() { MGTRAIN_CIFAR10_URL=$url bash "$scratch/tree/scripts/get_data.sh" "$@" >"$scratch/out" 2>&1; }
says() { grep -qF -- "$1" "$scratch/out"; }
destination=$scratch/tree/data/cifar-10-batches-bin

url=file://$scratch/nowhere.tar.gz
check "an archive that cannot be fetched is a failure" eval '! get cifar10'
check "it says what to do" says "name a mirror with MGTRAIN_CIFAR10_URL"
check "nothing is left behind" test ! -e "$destination"

echo "<html>error 404</html>" >"$scratch/page"
url=file://$scratch/page
check "another file is a failure" eval '! get cifar10'
check "it says why" says "is not the archive (MD5 $md5)"
check "it is removed" test ! -e "$destination/cifar-10-binary.tar.gz"

url=file://$scratch/archive.tar.gz
mkdir -p "$destination"
head -c 5000 "$scratch/archive.tar.gz" >"$destination/cifar-10-binary.tar.gz"
check "a download that broke off goes on" get cifar10
check "all its files are there" diff -r "$scratch/made/cifar-10-batches-bin" "$destination" -x md5sums.txt
check "the archive is removed" test ! -e "$destination/cifar-10-binary.tar.gz"

url=file://$scratch/nowhere.tar.gz
check "a second run succeeds without fetching" get cifar10
check "it says so" says "nothing to do"
echo x >>"$destination/data_batch_3.bin"
check "a damaged file is noticed" eval '! get cifar10'
cp "$scratch/archive.tar.gz" "$destination/cifar-10-binary.tar.gz"
check "an archive brought by hand is taken" get cifar10
check "the damaged file is replaced" cmp "$scratch/made/cifar-10-batches-bin/data_batch_3.bin" "$destination/data_batch_3.bin"

url=file://$scratch/archive.tar.gz
check "another destination is taken" get cifar10 "$scratch/else where"
check "with all its files" test -s "$scratch/else where/test_batch.bin"
check "an unknown set is wrong usage" eval 'get mnist; [ $? = 2 ]'
check "no set is wrong usage" eval 'get; [ $? = 2 ]'
check "help is no failure" get --help

if [ -d /usr/share/datasets/fashion-mnist ]; then
  check "the installed package is taken" get fashion-mnist
  check "the set is named" grep -q '"name": "Fashion-MNIST"' "$scratch/tree/data/fashion-mnist/dataset.json"
  check "a second run has nothing to do" eval 'get fashion-mnist && says "nothing to do"'
fi

[ $failures = 0 ] && echo "all checks passed"
