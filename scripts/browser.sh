#!/usr/bin/env bash
# Installs what builds and drives the web page, where this user may: as root, from Debian's or Ubuntu's packages.
set -euo pipefail
present=1
for program in npm chromium; do command -v "$program" >/dev/null || present=; done
[ -z "$present" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends npm chromium; } >/dev/null
else
  echo "tests of the web page need the packages npm and chromium; without, they are skipped" >&2
fi
