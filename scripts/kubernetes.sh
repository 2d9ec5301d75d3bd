#!/usr/bin/env bash
# Builds the control plane that the tests of `murmur kube` start: kube-apiserver, kube-scheduler, kube-controller-manager
# and kubemark 1.20.2 from Debian's source, into a cache folder of this user; etcd is Debian's own. Once built, it ends at
# once. About ten minutes of CPU, 1 GB of memory and 3 GB of disk while it builds; 300 MB stay.
# Needs Debian 12, and root to install packages that are missing.
set -euo pipefail
version=1.20.2
source_version='1.20.5+really1.20.2-1.1+deb12u1'
programs=(kube-apiserver kube-scheduler kube-controller-manager kubemark)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/murmuration-kubernetes/$version
packages=(golang-go rsync jq make dpkg-dev golang-github-modern-go-reflect2-dev etcd-server)
reflect2=/usr/share/gocode/src/github.com/modern-go/reflect2

fail() { echo "$1" >&2; exit 1; }

is_complete() { command -v etcd >/dev/null && [ -f "$cache/built" ]; }

install_packages() {
  dpkg -s "${packages[@]}" >/dev/null 2>&1 && return
  [ "$(id -u)" = 0 ] || fail "first, as root: apt-get install --no-install-recommends ${packages[*]}"
  # Debian starts etcd as a service when it is installed; tests start their own.
  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 update -qq >/dev/null
  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -qq \
    --no-install-recommends "${packages[@]}" >/dev/null
}

# Sources come from the mirror that this host's packages come from, through lists of our own: its apt is left as it was.
fetch_source() {
  local mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  read -r mirror < <(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' 'Created-By: Packages') \
    || fail "expected packages of Debian 12 (bookworm) in this host's apt sources"
  echo "deb-src [signed-by=$keyring] $mirror bookworm main" >sources.list
  mkdir -p lists/partial parts
  local own=(-qq -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts="$PWD/parts"
    -o Dir::State::lists="$PWD/lists" -o APT::Sandbox::User=root)
  apt-get "${own[@]}" update
  apt-get "${own[@]}" source "kubernetes=$source_version" >/dev/null
}

# The tree's own copy of reflect2 is older than the compiler; Debian's is not.
prepare_tree() {
  local vendored=vendor/github.com/modern-go/reflect2
  rm -f $vendored/*.go $vendored/*.s
  cp $reflect2/*.go $reflect2/*.s $vendored/
  mkdir -p .go/src/k8s.io
  ln -s ../../.. .go/src/k8s.io/kubernetes
  printf 'KUBE_GIT_COMMIT=x\nKUBE_GIT_TREE_STATE=clean\nKUBE_GIT_VERSION=v%s\nKUBE_GIT_MAJOR=1\nKUBE_GIT_MINOR=20\n' \
    $version >../version.sh
}

build_programs() {
  export GOPATH=$PWD/.go GO111MODULE=off CGO_ENABLED=0 KUBE_GIT_VERSION_FILE=$PWD/../version.sh
  export GOCACHE=$PWD/../go-cache
  local program
  for program in "${programs[@]}"; do
    nice make WHAT=cmd/$program GOFLAGS=-tags=providerless >../$program.log 2>&1 \
      || { tail -20 ../$program.log >&2; fail "$program could not be built"; }
  done
}

is_complete && exit
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
install_packages
is_complete && exit
work=$(mktemp -d "$cache/build.XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
fetch_source
cd kubernetes-1.20*/
prepare_tree
build_programs
for program in "${programs[@]}"; do
  install -m 755 "_output/bin/$program" "$cache/$program"
done
echo "$source_version $(go version)" >"$cache/built"
