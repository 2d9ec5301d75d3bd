#!/usr/bin/env bash
# Installs runc, what gives containers a network, and a static program for images of tests, where this user may: as root, from Debian's or Ubuntu's packages.
set -euo pipefail
present=1
for program in runc ip nft nsenter busybox; do command -v "$program" >/dev/null || present=; done
[ -z "$present" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends runc iproute2 nftables e2fsprogs util-linux busybox-static; } >/dev/null
else
  echo "tasks in containers need root and the packages runc, iproute2 and nftables; without, they run as plain processes" >&2
fi
