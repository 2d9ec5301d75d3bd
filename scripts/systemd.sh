#!/usr/bin/env bash
# A systemd of its own as process 1 of a container over this host's root, to run the units of deploy/systemd for real.
# usage: systemd.sh FOLDER (empty: what it needs; its process number is in FOLDER/pid). Ends with its first process.
# Needs root, systemd and control groups of version 1 or hybrids. What it writes goes to an overlay in memory; no sysctl
# and no network of the host is touched; its control groups are murmur-systemd-* and go when the test removes them.
set -euo pipefail
work=$(realpath "$1")
here=$(realpath "$(dirname "$0")/..")
name=murmur-systemd-$$
python=$(dirname "$(dirname "$(realpath "$(command -v "$here/.venv/bin/python" || command -v python3)")")")
packages=$("$python/bin/python3" -c 'import sys; print(f"lib/python{sys.version_info[0]}.{sys.version_info[1]}")')
venv=${VIRTUAL_ENV:-$here/.venv}
kinds=""
for folder in /sys/fs/cgroup/*/; do
  kind=$(basename "$folder")
  [ -e "$folder/cgroup.procs" ] && [ "$kind" != cpuset ] || continue
  mkdir "$folder/$name" && echo $$ >"$folder/$name/cgroup.procs" && kinds="$kinds $kind"
done
echo "$name" >"$work/cgroup"
export work here name python packages venv kinds
unshare --mount --propagation private --uts --ipc --net --pid --fork --kill-child --cgroup bash -euo pipefail -c '
root=$work/root
mkdir -p "$work/memory" && mount -t tmpfs tmpfs "$work/memory" && mkdir "$work/memory/upper" "$work/memory/scratch" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/memory/upper,workdir=$work/memory/scratch" "$root"
mount -t proc proc "$root/proc" && mount --bind "$root/proc/sys" "$root/proc/sys" && mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys" && mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run" && mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
mkdir "$root/dev/pts" "$root/dev/shm" && mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" && ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs tmpfs "$root/dev/shm" && ln -s /proc/self/fd "$root/dev/fd"
for kind in $kinds; do
  mkdir "$root/sys/fs/cgroup/$kind"
  case $kind in
    systemd) mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/$kind" ;;
    unified) mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/$kind" ;;
    *) mount -t cgroup -o "$kind" cgroup "$root/sys/fs/cgroup/$kind" ;;
  esac
done
# A Python that every user can read, and this package in it.
mkdir -p "$root/opt/python" "$root/opt/murmur/bin" "$root/opt/murmur/$packages/site-packages"
mount --rbind "$python" "$root/opt/python"
mount --rbind "$venv/$packages/site-packages" "$root/opt/murmur/$packages/site-packages"
ln -s /opt/python/bin/python3 "$root/opt/murmur/bin/python" && echo "home = /opt/python/bin" >"$root/opt/murmur/pyvenv.cfg"
sed "1s|.*|#!/opt/murmur/bin/python|" "$venv/bin/murmur" >"$root/usr/local/bin/murmur" && chmod 755 "$root/usr/local/bin/murmur"
echo /opt/python/lib >"$root/etc/ld.so.conf.d/000-python.conf" && ldconfig -r "$root"
rm -rf "$root/etc/systemd/system" && mkdir "$root/etc/systemd/system" "$root/etc/murmur"
cp "$here"/deploy/systemd/*.service "$root/etc/systemd/system/"
ip link set lo up
cd "$root" && mkdir before && pivot_root . before && umount -l /before
container=murmuration exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=journal' &
child=$!
for _ in $(seq 600); do
  pid=$(pgrep -P "$child" || true)
  [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = systemd ] && break
  kill -0 "$child" || exit 1
  sleep 0.1
done
echo "$pid" >"$work/pid.new" && mv "$work/pid.new" "$work/pid"
wait "$child"
