# Sourced with $root set: makes $root/.venv once, and installs the project into it whenever pyproject.toml has changed.

make_venv() {
  local python=${PYTHON:-python3}
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "expected Python 3.11 or later" >&2; exit 2; }
  # Debian's own Python comes without ensurepip until python3-venv is installed.
  if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "first: apt-get install python3-venv" >&2; exit 2; }
    { apt-get update -qq && apt-get install -y -qq python3-venv; } >/dev/null
  fi
  "$python" -m venv "$root/.venv"
}

install_project() {
  local want
  want="$1 $(cksum <"$root/pyproject.toml")"
  [ "$(cat "$root/.venv/installed" 2>/dev/null)" = "$want" ] && return
  "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root${1:+[$1]}" >&2
  echo "$want" >"$root/.venv/installed"
}

[ -x "$root/.venv/bin/python" ] || make_venv
