#!/usr/bin/env bash
# From a fresh Debian 12 to a fine-tuned model: installs, builds, obtains SmolLM2-135M-Instruct, fine-tunes it on
# recipes/data/ftune-faq.jsonl and shows what it answers before and after. What is there already is used again.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: recipes/quickstart.sh [--steps N] [--again] [--skip-install]
  --steps N       a smoke run: N training steps, in runs/quickstart-smoke, trained afresh each time
  --again         train afresh, replacing runs/quickstart
  --skip-install  do not look for missing Debian packages
USAGE
}
step() { printf '\n== %s (after %dm%02ds)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)) >&2; }
die() { echo "quickstart: error: $*" >&2; exit 1; }
reject() { echo "quickstart: error: $*" >&2; usage >&2; exit 2; }

steps="" again=false install=true
while (($# > 0)); do
  case "$1" in
    --steps)
      [[ "${2-}" =~ ^[1-9][0-9]*$ ]] || reject "--steps: found '${2-}', expected a whole number of 1 or more"
      steps="$2"
      shift
      ;;
    --again) again=true ;;
    --skip-install) install=false ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) reject "unknown argument '$1'" ;;
  esac
  shift
done

cd "$(dirname "$(dirname "$(readlink -f "$0")")")"
recipe=recipes/quickstart.yaml
train_data=recipes/data/ftune-faq.jsonl
eval_data=recipes/data/ftune-faq-eval.jsonl
ftune=build/release/ftune
# Of the held-out questions: none of them, nor one that resembles it, is in the training data (check_faq.py).
questions=(
  "If I leave sequence_len out, how many tokens long is a sequence?"
  "The queue shows that ftune returned 75; is my run safe?"
  "My LoRA training is done; where did ftune put the adapter?"
)
for question in "${questions[@]}"; do
  grep -qF "\"content\": \"$question\"" "$eval_data" || die "$eval_data does not hold the question: $question"
done

run=runs/quickstart
overrides=()
train_flags=()
if [[ -n "$steps" ]]; then
  run=runs/quickstart-smoke
  overrides=("train.max_steps=$steps")
  train_flags=(--force)
elif $again; then
  train_flags=(--force)
fi
log="$run/log.jsonl"
adapter="$run/adapter"
merged="$run-merged"
# What a finished run was made from; written when training has ended, and only then.
finished="$run/quickstart.sha256"
made_from() { sha256sum "$recipe" "$train_data" "$eval_data"; }

reuse=false
if [[ -e "$run" ]] && ((${#train_flags[@]} == 0)); then
  [[ -f "$finished" ]] || die "$run is there but did not finish; run this with --again to train afresh, which replaces it"
  made_from | cmp -s - "$finished" ||
    die "$run was trained from another recipe or other data; run this with --again to train afresh, which replaces it"
  reuse=true
fi

if $install; then
  step "Debian packages"
  third_party/install.sh
fi

step "Building $ftune"
cmake --preset release >/dev/null || die "cmake could not configure build/release (its message is above)"
cmake --build --preset release --target ftune >&2 || die "the build failed (the compiler's message is above)"

step "The model"
model="$(recipes/get_model.sh)"
echo "$model" >&2

# answer QUESTION [FLAG…]: the model's answer on standard output.
answer() {
  local question="$1"
  shift
  "$ftune" generate "$model" "$@" --chat "$question" --temperature 0 --max-new-tokens 64 --quiet ||
    die "ftune generate failed (its message is above)"
}

step "Three questions that are not in the training data, before"
before=()
for question in "${questions[@]}"; do
  text="$(answer "$question")"
  before+=("$text")
  printf 'Q: %s\n%s\n\n' "$question" "$text" >&2
done

if $reuse; then
  step "Training: $run is finished already and is used again (--again trains afresh)"
else
  step "Training"
  code=0
  rm -f "$finished"
  "$ftune" train "$recipe" "model.path=$model" "output_dir=$run" "${overrides[@]}" "${train_flags[@]}" >&2 || code=$?
  ((code != 75)) || { echo "quickstart: interrupted; what was trained is in $run; --again trains afresh" >&2; exit 75; }
  ((code == 0)) || die "ftune train ended with code $code (its message is above)"
  [[ -f "$adapter/adapter_model.safetensors" ]] || die "training ended without $adapter/adapter_model.safetensors"
  made_from >"$finished"
fi

step "The same questions, after"
after=()
for question in "${questions[@]}"; do
  text="$(answer "$question" --adapter "$adapter")"
  after+=("$text")
  printf 'Q: %s\n%s\n\n' "$question" "$text" >&2
done

step "Merging the adapter into the model"
if [[ ! -f "$merged/config.json" || "$finished" -nt "$merged/config.json" ]]; then
  rm -rf "$merged"
  "$ftune" export "$run" --merge --out "$merged" >&2 || die "ftune export failed (its message is above)"
fi

# Evaluation at the start of training and at its end, from the run's log.
eval_losses="$(sed -nE '/"event": ?"eval"/s/.*"eval_loss": ?([-+.eE0-9]+).*/\1/p' "$log")"
[[ -n "$eval_losses" ]] || die "$log has no evaluation"
loss_before="$(head -n 1 <<<"$eval_losses")"
loss_after="$(tail -n 1 <<<"$eval_losses")"

show() { fold -s -w 88 <<<"$2" | sed -e "1s/^/  $1  /" -e '2,$s/^/          /' -e 's/ *$//'; }
step "Done"
for i in "${!questions[@]}"; do
  printf '\n%s\n' "${questions[i]}"
  show before "${before[i]}"
  show "after " "${after[i]}"
done
printf '\nevaluation loss  '
awk -v a="$loss_before" -v b="$loss_after" 'BEGIN {printf "%.3f before, %.3f after (%+.0f %%)\n", a, b, 100 * (b / a - 1)}'
printf 'adapter          %s\nmerged model     %s\nlog              %s\n' "$adapter" "$merged" "$log"
printf 'ask it yourself  %s generate %s --chat "What does ftune plan do?" --temperature 0\n' "$ftune" "$merged"

if [[ -z "$steps" ]]; then
  awk -v a="$loss_before" -v b="$loss_after" 'BEGIN {exit !(b <= a * 2 / 3)}' ||
    die "the evaluation loss fell by less than a third; something is wrong with this build or this recipe"
fi
