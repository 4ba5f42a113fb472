#!/usr/bin/env bash
# Compares ftune with PyTorch on SmolLM2-135M: speed, memory, time to the first step. About an hour on two cores;
# arguments go to bench.py (--modes lora --data long --packs 1 for a short look). Run it on an idle machine.
set -euo pipefail
cd "$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")"
export FTUNE_CACHE="${FTUNE_CACHE:-$PWD/.cache}"
python="${FTUNE_TEST_PYTHON:-$FTUNE_CACHE/test-venv/bin/python}"
build=build/release
work="$FTUNE_CACHE/bench"

die() { echo "bench: error: $*" >&2; exit 2; }

[[ -x $python ]] || die "no $python; tests/run.sh makes it"
[[ -x $build/ftune ]] || die "no $build/ftune; cmake --preset release && cmake --build --preset release makes it"

model="$work/model"
if [[ ! -f $model/config.json ]]; then
  # Both sides read the same file in the precision that they compute in.
  gguf="$(recipes/get_model.sh)"
  "$build/ftune" export "$gguf" --out "$model.new" --dtype fp32
  rm -rf "$model" && mv "$model.new" "$model"
fi

cmake --build --preset release --target kernels_bench || die "kernels_bench, which measures the peak, could not be built"

exec "$python" tests/bench/bench.py --ftune "$build/ftune" --model "$model" --work "$work/runs" \
  --json "$work/results.json" --kernels-bench "$build/tests/kernels_bench" "$@"
