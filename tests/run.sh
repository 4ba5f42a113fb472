#!/usr/bin/env bash
# Installs, builds and runs the tests through CTest. By their labels: `fast`; `slow`, minutes rather than seconds;
# `full`: large grids, and what waits for Slurm.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: tests/run.sh [--quick | --full] [--skip-install]
  (neither)       the fast and the slow tests, as CI does
  --quick         the fast tests only
  --full          every test
  --skip-install  do not look for missing Debian packages
USAGE
}
step() { printf '\n== %s (after %dm%02ds)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }
die() { echo "run: error: $*" >&2; exit 1; }

selection=(--label-exclude '^full$') install=true
while (($# > 0)); do
  case "$1" in
    --quick) selection=(--label-regex '^fast$') ;;
    --full) selection=() ;;
    --skip-install) install=false ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      echo "run: error: unknown argument '$1'" >&2
      usage >&2
      exit 2
      ;;
  esac
  shift
done

cd "$(dirname "$(dirname "$(readlink -f "$0")")")"
export FTUNE_CACHE="${FTUNE_CACHE:-$PWD/.cache}"
venv="$FTUNE_CACHE/test-venv"
requirements=third_party/requirements.txt

if $install; then
  step "Debian packages"
  third_party/install.sh --cluster
fi

step "Python references"
# The copy of the requirements is written last: an environment without it, or with another, is made anew.
if cmp -s "$requirements" "$venv/requirements.txt"; then
  echo "$venv is there"
else
  python3 -m venv --clear "$venv" || die "python3 could not make an environment in $venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements" ||
    die "pip could not install $requirements (its message is above); is there a network?"
  cp "$requirements" "$venv/requirements.txt"
fi

step "The model"
model="$(recipes/get_model.sh)"
echo "$model"

step "Building"
cmake --preset release -DFTUNE_TEST_PYTHON="$venv/bin/python" -DFTUNE_TEST_MODEL="$model" >/dev/null ||
  die "cmake could not configure build/release (its message is above)"
cmake --build --preset release || die "the build failed (the compiler's message is above)"

step "Tests"
ctest --test-dir build/release --output-on-failure --no-tests=error -j2 "${selection[@]}"
