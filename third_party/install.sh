#!/usr/bin/env bash
# Installs the Debian packages of third_party/apt.txt that are missing. Asks no package server when none is.
set -euo pipefail

list="$(dirname "$(readlink -f "$0")")/apt.txt"
die() { echo "install: error: $*" >&2; exit 1; }

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  die "this is not a Debian-like system; install by hand what $list names, then pass --skip-install"
fi

missing=()
while read -r package; do
  [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" == installed ]] || missing+=("$package")
done < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$list")
if ((${#missing[@]} == 0)); then
  echo "install: all packages of third_party/apt.txt are there" >&2
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || die "run this as root, or install sudo, to install: ${missing[*]}"
  as_root=(sudo)
fi
echo "install: installing ${missing[*]}" >&2
"${as_root[@]}" apt-get update -q >&2 ||
  die "apt-get update failed (its message is above); is there a network, and are the sources right?"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >&2 ||
  die "apt-get could not install: ${missing[*]} (its message is above)"
