#!/usr/bin/env bash
# Installs Debian's Prometheus, which a test lets scrape a real cluster. Needs root if it is missing; its service is not started.
set -euo pipefail
command -v prometheus >/dev/null && exit
[ "$(id -u)" = 0 ] || { echo "first, as root: apt-get install --no-install-recommends prometheus" >&2; exit 1; }
export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive
apt-get -o DPkg::Lock::Timeout=600 update -qq >/dev/null
apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends prometheus >/dev/null
