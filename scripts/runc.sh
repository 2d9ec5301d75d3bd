#!/usr/bin/env bash
# Installs runc, for tasks in containers, where this user may: as root, from Debian's or Ubuntu's packages.
set -euo pipefail
command -v runc >/dev/null && exit
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends runc; } >/dev/null
else
  echo "tasks in containers need root and the package runc; without, they run as plain processes" >&2
fi
