#!/usr/bin/env bash
# Installs what ftune is built from, as far as it is missing: the Debian packages of third_party/apt.txt, and the Python
# package pyarrow, whose C++ libraries read Parquet and Arrow files, into .cache/pyarrow ($FTUNE_CACHE/pyarrow where that
# is set). With --cluster also the packages of third_party/apt-cluster.txt, for the tests on hosts that this machine plays;
# none of their daemons is started here, nor at the next boot. Asks no package server when all of it is there.
set -euo pipefail

third_party="$(dirname "$(readlink -f "$0")")"
die() { echo "install: error: $*" >&2; exit 1; }

# The packages of a list that are not there, one a line.
missing_of() {
  local package
  while read -r package; do
    [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" == installed ]] || echo "$package"
  done < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1")
}

install_debian_packages() {
  local list="$third_party/apt.txt" missing cluster=() as_root=()
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    die "this is not a Debian-like system; install by hand what $list names, then pass --skip-install"
  fi
  mapfile -t missing < <(missing_of "$list")
  if $with_cluster; then mapfile -t cluster < <(missing_of "$third_party/apt-cluster.txt"); fi
  if ((${#missing[@]} + ${#cluster[@]} == 0)); then
    echo "install: all Debian packages are there" >&2
    return
  fi
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "run this as root, or install sudo, to install: ${missing[*]} ${cluster[*]}"
    as_root=(sudo)
  fi
  echo "install: installing ${missing[*]} ${cluster[*]}" >&2
  "${as_root[@]}" apt-get update -q >&2 ||
    die "apt-get update failed (its message is above); is there a network, and are the sources right?"
  ((${#missing[@]} == 0)) || apt_install "${missing[@]}"
  ((${#cluster[@]} == 0)) || install_without_daemons "${cluster[@]}"
}

apt_install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >&2 ||
    die "apt-get could not install: $* (its message is above)"
}

# Debian starts what it installs, unless policy-rc.d forbids it.
install_without_daemons() {
  local policy=/usr/sbin/policy-rc.d unit
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
    "${as_root[@]}" chmod +x $policy
    # shellcheck disable=SC2064
    trap "${as_root[*]} rm -f $policy" EXIT
  fi
  apt_install "$@"
  command -v systemctl >/dev/null || return 0
  for unit in openssh-server:ssh munge:munge slurmctld:slurmctld slurmd:slurmd nftables:nftables; do
    [[ " $* " != *" ${unit%:*} "* ]] || "${as_root[@]}" systemctl disable --quiet "${unit#*:}" >&2 || true
  done
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

with_cluster=false
if [[ "${1-}" == --cluster ]]; then with_cluster=true; fi
install_debian_packages
install_pyarrow
