#!/usr/bin/env bash
# What cluster.py runs inside namespaces: the network of a cluster and its nodes.
#
#   fabric.sh fabric N       as pid 1 of a pid namespace with its own mounts and network: a bridge, and N nodes on it
#   fabric.sh start-node I   inside the fabric: boots a node, also one that was powered off
#   fabric.sh node I         as pid 1 of a node
#
# A node has its own network, process numbers, names, shared memory, and a root of its own: this machine's as it is, with
# what the node writes kept beside it. Nothing here has a link to the machine's network. All of it hangs on the process
# that cluster.py started: when that is killed, the kernel ends every process, link and mount.
#
# STATE: a folder with etc/ (keys, hosts, sshd_config), log/, shared/ and fs/.  NETWORK: the first three numbers of its addresses.
# FOLDERS: lines "share SOURCE" or "share SOURCE:TARGET", of folders that all nodes see, and "hide FOLDER", of those that are
# empty but on node 1.
set -euo pipefail
self="$(readlink -f "$0")"

run_fabric() {
  local count=$1 i links="link add br0 type bridge forward_delay 0"$'\n'"link set br0 up"$'\n'
  mount --make-rprivate /
  mount -t proc proc /proc
  mount -t tmpfs -o mode=755 nodes "$STATE/fs"
  mount -t tmpfs -o mode=755 run /run # the names of network namespaces stay in here
  mkdir -p /run/netns
  ip link set lo up
  for ((i = 1; i <= count; i++)); do
    ip netns add "node$i"
    links+="link add eth0 netns node$i type veth peer name p$i"$'\n'"link set p$i master br0 up"$'\n'
  done
  ip -batch - <<<"$links"
  for ((i = 1; i <= count; i++)); do
    ip -n "node$i" -batch - <<<"link set lo up
address add $NETWORK.$((10 + i))/24 dev eth0
link set eth0 up"
    start_node "$i"
  done
  idle
}

# A pid 1 that reaps whatever is left to it.
idle() {
  trap : CHLD TERM INT HUP
  while :; do
    sleep 86400 &
    wait $! || :
  done
}

start_node() {
  mkdir -p "$STATE/fs/node$1"/{upper,work,root}
  setsid nsenter --net="/run/netns/node$1" -- \
    unshare --mount --uts --ipc --pid --fork --kill-child -- "$self" node "$1" \
    >"$STATE/log/node$1/init.log" 2>&1 </dev/null &
}

mount_devices() {
  local dev=$1 device
  mount -t tmpfs -o mode=755 dev "$dev"
  for device in null zero full random urandom tty; do
    : >"$dev/$device"
    mount --bind "/dev/$device" "$dev/$device"
  done
  mkdir "$dev/pts" "$dev/shm"
  mount -t devpts devpts "$dev/pts" -o newinstance,ptmxmode=0666,mode=620,gid=5
  mount -t tmpfs -o mode=1777 shm "$dev/shm"
  ln -s pts/ptmx "$dev/ptmx"
  ln -s /proc/self/fd "$dev/fd"
  ln -s fd/0 "$dev/stdin"
  ln -s fd/1 "$dev/stdout"
  ln -s fd/2 "$dev/stderr"
}

mount_folders() {
  local i=$1 root=$2 kind folder
  mount -t tmpfs -o mode=755 run "$root/run"
  mount -t tmpfs -o mode=1777 tmp "$root/tmp"
  while read -r kind folder; do
    mkdir -p "$root${folder#*:}"
    case "$kind" in
      share) mount --bind "${folder%%:*}" "$root${folder#*:}" ;;
      hide) ((i == 1)) || mount -t tmpfs hidden "$root$folder" ;;
    esac
  done <<<"$FOLDERS"
  mkdir -p "$root/var/log/cluster"
  mount --bind "$STATE/log/node$i" "$root/var/log/cluster"
}

# root and an ordinary user, ft, with one key for both everywhere.
make_accounts() {
  local root=$1 home
  if ! grep -q '^ft:' "$root/etc/passwd"; then
    echo 'ft:x:2000:2000::/home/ft:/bin/bash' >>"$root/etc/passwd"
    echo 'ft:x:2000:' >>"$root/etc/group"
    echo 'ft:*:19000:0:99999:7:::' >>"$root/etc/shadow"
  fi
  for home in root home/ft; do
    mkdir -p "$root/$home/.ssh"
    rm -f "$root/$home"/.ssh/*
    cp "$STATE"/etc/id_ed25519{,.pub} "$root/$home/.ssh/"
    cp "$STATE/etc/id_ed25519.pub" "$root/$home/.ssh/authorized_keys"
    chmod 700 "$root/$home/.ssh"
    chmod 600 "$root/$home/.ssh"/*
  done
  chown -R 2000:2000 "$root/home/ft"
}

configure_sshd() {
  local i=$1 root=$2
  mkdir -p "$root/run/sshd"
  rm -f "$root"/etc/ssh/ssh_host_*
  cp "$STATE/etc/hostkey_$i" "$root/etc/ssh/ssh_host_ed25519_key"
  chmod 600 "$root/etc/ssh/ssh_host_ed25519_key"
  cp "$STATE"/etc/{sshd_config,ssh_known_hosts} "$root/etc/ssh/"
}

run_node() {
  local i=$1 name="node$1" root="$STATE/fs/node$1/root"
  hostname "$name"
  mount --make-rprivate /
  mount -t overlay "root-$name" "$root" \
    -o "lowerdir=/,upperdir=$STATE/fs/$name/upper,workdir=$STATE/fs/$name/work"
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mount_devices "$root/dev"
  mount_folders "$i" "$root"
  cp "$STATE/etc/hosts" "$root/etc/hosts"
  echo "$name" >"$root/etc/hostname"
  printf 'options timeout:1 attempts:1\n' >"$root/etc/resolv.conf"
  make_accounts "$root"
  configure_sshd "$i" "$root"
  mkdir -p "$root/.machine"
  cd "$root"
  pivot_root . .machine
  cd /
  umount -l /.machine
  /usr/sbin/sshd -E /var/log/cluster/sshd.log
  : >/var/log/cluster/ready
  idle
}

case "$1" in
  fabric) run_fabric "$2" ;;
  start-node) start_node "$2" ;;
  node) run_node "$2" ;;
esac
