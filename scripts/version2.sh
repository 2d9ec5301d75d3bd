#!/usr/bin/env bash
# Runs the tests of containers in a virtual machine whose control groups are all of version 2, for hosts that have them
# otherwise. The guest sees this host's root, read-only, under a layer in memory. Needs root and Debian's packages; takes
# minutes. Environment: PYTHON (with the project's dependencies), by default the project's own virtual environment.
# Arguments go to pytest.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
python=${PYTHON:-$root/.venv/bin/python}
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends qemu-system-x86 busybox-static runc; } >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
image=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
apt-get download -qq "$image" 2>/dev/null
dpkg -x "$image"_*.deb kernel

mkdir -p guest/{bin,modules,proc,sys,dev,host,layer,root}
cp "$(command -v busybox)" guest/bin/
# The modules the guest needs, each after those it depends on.
"$python" - kernel guest/modules virtio_pci 9pnet_virtio 9p overlay <<'PY'
import pathlib, re, shutil, sys
modules = {path.stem.replace("-", "_"): path for path in pathlib.Path(sys.argv[1]).rglob("*.ko")}
order = []
def add(name):
    if name in modules and name not in order:
        for other in re.search(rb"depends=([^\0]*)\0", modules[name].read_bytes())[1].decode().split(","):
            add(other.replace("-", "_"))
        order.append(name)
for name in sys.argv[3:]:
    add(name)
for k, name in enumerate(order):
    shutil.copy(modules[name], f"{sys.argv[2]}/{k:02}-{name}.ko")
PY

cat >guest/init <<'SH'
#!/bin/busybox sh
exec >/dev/console 2>&1
b=/bin/busybox
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev
for module in /modules/*; do $b insmod $module; done
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=524288,cache=loose host /host
$b mount -t tmpfs -o size=60% layer /layer; $b mkdir /layer/upper /layer/work
$b mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work root /root
for place in proc sys dev; do $b mount --move /$place /root/$place; done
$b mkdir -p /root/run /root/dev/shm
$b mount -t tmpfs run /root/run; $b mount -t tmpfs shm /root/dev/shm
$b mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
$b ip link set lo up
$b cp /tests /root/run/
exec $b switch_root /root /bin/sh /run/tests
SH
chmod +x guest/init
cat >guest/tests <<SH
exec >/dev/console 2>&1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/src
# Not at the root of the hierarchy, as a service manager would have it.
cd /sys/fs/cgroup && mkdir -p service/agent
for place in . service; do echo "+cpu +memory +pids" >\$place/cgroup.subtree_control; done
echo \$\$ >service/agent/cgroup.procs
cd $root
$python -m pytest --color=no -p no:cacheprovider --basetemp=/run/pytest ${*:-tests/runtime/isolation}
echo "tests ended with \$?"
echo o >/proc/sysrq-trigger
sleep 60
SH
(cd guest && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >guest.gz
qemu-system-x86_64 -accel tcg -m 3000 -smp 2 -nographic -no-reboot -kernel kernel/boot/vmlinuz-* -initrd guest.gz \
  -append "console=ttyS0 quiet panic=-1" \
  -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap </dev/null | tee log
grep -q "tests ended with 0" log
