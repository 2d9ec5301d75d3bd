#!/usr/bin/env bash
# Installs what builds and drives the web page, where this user may: as root, from Debian's or Ubuntu's packages.
set -euo pipefail
missing=()
for program in npm chromium; do command -v "$program" >/dev/null || missing+=("$program"); done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >/dev/null
else
  echo "tests of the web page need the packages npm and chromium; without, they are skipped" >&2
fi
