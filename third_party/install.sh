#!/usr/bin/env bash
# Installs what ftune is built from, as far as it is missing: the Debian packages of third_party/apt.txt, and the Python
# package pyarrow, whose C++ libraries read Parquet and Arrow files, into .cache/pyarrow ($FTUNE_CACHE/pyarrow where that
# is set). Asks no package server when all of it is there.
set -euo pipefail

third_party="$(dirname "$(readlink -f "$0")")"
die() { echo "install: error: $*" >&2; exit 1; }

install_debian_packages() {
  local list="$third_party/apt.txt" package missing=() as_root=()
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    die "this is not a Debian-like system; install by hand what $list names, then pass --skip-install"
  fi
  while read -r package; do
    [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" == installed ]] || missing+=("$package")
  done < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$list")
  if ((${#missing[@]} == 0)); then
    echo "install: all packages of third_party/apt.txt are there" >&2
    return
  fi
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "run this as root, or install sudo, to install: ${missing[*]}"
    as_root=(sudo)
  fi
  echo "install: installing ${missing[*]}" >&2
  "${as_root[@]}" apt-get update -q >&2 ||
    die "apt-get update failed (its message is above); is there a network, and are the sources right?"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >&2 ||
    die "apt-get could not install: ${missing[*]} (its message is above)"
}

# All of ftune but Parquet and Arrow works without: where it cannot be had, that is said and not an error.
install_pyarrow() {
  local package cache folder
  package="$(grep '^pyarrow==' "$third_party/requirements.txt")"
  cache="${FTUNE_CACHE:-$(dirname "$third_party")/.cache}"
  folder="$cache/pyarrow"
  # Written last: a folder without it, or with another version's, is made anew.
  if [[ "$(cat "$folder/installed" 2>/dev/null)" == "$package" ]]; then
    echo "install: $package is in $folder" >&2
    return
  fi
  echo "install: installing $package into $folder" >&2
  rm -rf "$folder"
  if ! python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps \
    --only-binary :all: --target "$folder" "$package" >&2; then
    rm -rf "$folder"
    echo "install: warning: pip could not install $package (its message is above); ftune is built without Parquet and" \
      "Arrow files" >&2
    return
  fi
  echo "$package" >"$folder/installed"
}

install_debian_packages
install_pyarrow
