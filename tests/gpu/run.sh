#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the test of the device code, checks the kernels against the CPU's results and times them beside a copy in device memory.
# Needs nvcc 12 or later, g++ and the headers of fmt, xxHash and Random123; neither Meson nor an earlier build.
#
#   tests/gpu/run.sh [--build | --run] [--folder FOLDER] [OPTION...]
#
# --build    only builds: the program needs no CUDA libraries and may be run on another machine
# --run      only runs what was built
# --folder   where the program and its objects are (default: build-gpu)
# OPTIONs    are the program's: --seed N, --cases N, --mib N, --rounds N; thc_gpu_test.cc explains them
#
# Environment: NVCC, CXX, and CPATH, which names folders of headers that are not installed.
# Ends with 'N passed, N failed'. Exits with 0, with 1 if anything failed, with 77 where there is no nvcc or no GPU.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$root/build-gpu
build=1 run=1 options=()
base=(fmt hash status text)  # what the other sources need of src/base

# die MESSAGE...
die() {
  printf 'run.sh: %s\n' "$1" >&2
  (($# == 1)) || printf '        %s\n' "${@:2}" >&2
  exit 1
}

# skip REASON
skip() {
  printf 'Skipped: %s\n' "$1"
  exit 77
}

while (($#)); do
  case $1 in
    --build) run=0 ;;
    --run) build=0 ;;
    --folder)
      (($# > 1)) || die "$1 takes a path."
      folder=$2
      shift
      ;;
    -h | --help)
      sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
      exit
      ;;
    *) options+=("$1") ;;
  esac
  shift
done
[[ $folder == /* ]] || folder=$PWD/$folder
program=$folder/thc_gpu_test

find_nvcc() {
  local candidate
  for candidate in "${NVCC:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc /usr/local/cuda-*/bin/nvcc /opt/cuda/bin/nvcc; do
    [[ -z $candidate || ! -x $candidate ]] || {
      echo "$candidate"
      return
    }
  done
}

# Headers of other projects that the codec's sources include, and Debian's packages that have them.
check_headers() {
  local header missing=()
  for header in fmt/format.h:libfmt-dev xxhash.h:libxxhash-dev Random123/philox.h:librandom123-dev; do
    "$cxx" -E -x c++ -include "${header%:*}" /dev/null >/dev/null 2>&1 || missing+=("${header%:*} (package ${header#*:})")
  done
  ((${#missing[@]} == 0)) || die "headers are missing:" "${missing[@]}" "Install them, or set CPATH to the folder that has them."
}

# compile OBJECT COMMAND...: in the background; its output is shown if it fails
compile() {
  local object=$1
  shift
  while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n || true; done
  { "$@" -o "$object" >"$object.log" 2>&1 || { echo "$*" && cat "$object.log" && touch "$folder/failed"; }; } &
}

build_program() {
  local nvcc cuda source objects=() cached=()
  nvcc=$(find_nvcc)
  [[ -n $nvcc ]] || skip "there is no nvcc in PATH or /usr/local/cuda; NVCC names it elsewhere."
  cxx=${CXX:-g++}
  command -v "$cxx" >/dev/null || die "there is no $cxx; CXX names another compiler."
  cd "$root"
  mkdir -p "$folder"
  rm -f "$folder/failed" "$program"
  "$nvcc" -std=c++20 -c cuda/probe.cu -o "$folder/probe.o" || die "$nvcc cannot compile the least program; NVCC names another."
  cuda=$("$nvcc" --dryrun -c cuda/probe.cu 2>&1 | sed -n 's/^#\$ TOP=//p')  # it may be a script that calls another
  check_headers
  ! command -v ccache >/dev/null || cached=(ccache)
  compile "$folder/thc_kernels.o" "${cached[@]}" "$nvcc" -std=c++20 -O3 -fmad=false -prec-div=true -prec-sqrt=true -ftz=false \
    -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_90,code=compute_90 \
    -I. -Isrc -Xcompiler=-ffp-contract=off -c cuda/thc_kernels.cu
  objects=("$folder/thc_kernels.o")
  for source in tests/gpu/*.cc src/codec/*.cc src/kernels/*.cc "${base[@]/#/src/base/}"; do
    [[ $source != src/kernels/target_* ]] || continue  # the scalar target is the definition, and enough
    source=${source%.cc}
    objects+=("$folder/$(tr / _ <<<"$source").o")
    compile "${objects[-1]}" "${cached[@]}" "$cxx" -std=c++20 -O2 -ffp-contract=off -I. -Isrc -Itests/gpu -isystem "$cuda/include" \
      -c "$source.cc"
  done
  wait
  [[ ! -e $folder/failed ]] || die "it does not compile; the first error is above."
  "$nvcc" -cudart static -Xcompiler=-static-libstdc++,-static-libgcc "${objects[@]}" -lpthread -ldl -lrt -o "$program" || die "it does not link."
}

((build == 0)) || build_program
((run)) || exit 0
[[ -x $program ]] || die "$program is not there." "tests/gpu/run.sh --build makes it."
"$program" "${options[@]}"
