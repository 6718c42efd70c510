#!/usr/bin/env bash
# fresh.sh [--demo] [--keep] RELEASE…: `make demo` and the unit tests in a fresh minimal Debian.
#
# For each release (bookworm, trixie) it makes a root with debootstrap in /var/tmp, clones the last
# commit of this checkout into it, and runs the commands there. A warning of a compiler or of CMake
# fails the run, because here is where newer versions of them are met. The output is also in
# build/fresh/RELEASE.log.
#
#   --demo  leaves the unit tests out
#   --keep  leaves the root in /var/tmp/paceline-fresh-RELEASE; the next run with --keep brings its
#           clone to the last commit and goes on from what is built there
#
# The root gets the machine's apt, pip and proxy settings and its certificates. Three caches outlive
# it: packages and compilations in build/fresh/RELEASE, Python packages in the user's cache of uv.
# Needs root and debootstrap; without them it says so and ends with 0.
#
# Mounts and processes live in namespaces of their own, so that the kernel removes them at any exit.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "fresh: $*"; }

mirror() {
  local found
  found=$(grep -hoE 'https?://[^ ]*/debian/?( |$)' /etc/apt/sources.list \
          /etc/apt/sources.list.d/* 2>/dev/null | grep -v snapshot | head -1 || true)
  echo "${found:-http://deb.debian.org/debian}"
}

make_root() {  # release root
  local release=$1 root=$2 file
  debootstrap --variant=minbase --include=ca-certificates,git,make "$release" "$root" \
    "$(mirror)" > "$root.log" 2>&1 || { tail -20 "$root.log" >&2; return 1; }
  for file in "" -updates; do echo "deb $(mirror) $release$file main"; done \
    > "$root/etc/apt/sources.list"
  for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
    if grep -qsE 'Acquire::(Check|http|https|Retries)' "$file"; then
      cp "$file" "$root/etc/apt/apt.conf.d"
    fi
  done
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt \
              ~/.config/pip/pip.conf; do
    if [ -e "$file" ]; then install -D -m 644 "$file" "$root$file"; fi
  done
  git clone -q . "$root$HOME/paceline"
}

# Brings the clone in a kept root to the last commit of this checkout.
update_root() {  # root
  git -C "$1$HOME/paceline" fetch -q "$PWD" HEAD
  git -C "$1$HOME/paceline" reset -q --hard FETCH_HEAD
}

# Mounts a folder of this machine at a path of the root, and makes both if they are missing.
share() {  # folder root path
  mkdir -p "$1" "$2$3"
  mount --bind "$1" "$2$3"
}

# In its own namespaces, as process 1: when it ends, the kernel ends all others and the mounts.
run_inside() {  # release root commands
  local root=$2 caches=$PWD/build/fresh/$1 settings
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  share "$caches/ccache" "$root" "$HOME/.cache/ccache"
  share "$caches/apt" "$root" /var/cache/apt/archives
  share "${UV_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/uv}" "$root" "$HOME/.cache/uv"
  mapfile -t settings < <(env | grep -E '^(PIP_|UV_|SSL_CERT_|https?_proxy=|no_proxy=|JOBS=)' |
                          grep -v '^UV_CACHE_DIR=')
  # uv cannot link from another mount. With PIP_VERBOSE the wheel's build shows its warnings.
  env -i "${settings[@]}" UV_LINK_MODE=copy PIP_VERBOSE=2 HOME="$HOME" LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    chroot "$root" bash -ec "cd ~/paceline; $3" < /dev/null
}

# Prints the warnings of compilers and of CMake in a log, each once; fails if there are any.
has_no_warnings() {  # log
  local found
  found=$(grep -E ': warning: |^CMake (Deprecation )?Warning' "$1" | sort -u || true)
  if [ -z "$found" ]; then return; fi
  echo "$found" >&2
  say "these warnings are in $1: mend what they warn of" >&2
  return 1
}

try_release() {  # release root
  local release=$1 root=$2 start=$SECONDS log=build/fresh/$1.log
  if [ -e "$root$HOME/paceline" ]; then
    say "$release: going on in $root"
    update_root "$root"
  else
    say "$release: making a minimal root"
    rm -rf --one-file-system "$root"  # what a try that was cut off left of it
    make_root "$release" "$root"
  fi
  say "$release: $commands"
  mkdir -p build/fresh
  unshare --mount --pid --fork --kill-child --propagation private \
    tools/fresh.sh --inside "$release" "$root" "$commands" 2>&1 | tee "$log"
  has_no_warnings "$log"
  say "$release: passed in $((SECONDS - start)) s"
}

if [ "${1:-}" = --inside ]; then run_inside "$2" "$3" "$4"; exit; fi

commands="make demo; make build unit heavy-units PART=fresh"
keep=
while [[ "${1:-}" = --* ]]; do
  case "$1" in
    --demo) commands="make demo" ;;
    --keep) keep=yes ;;
    *) sed -n '2s/^# /usage: /p' "$0" >&2; exit 2 ;;
  esac
  shift
done
for reason in "root:[ $(id -u) -eq 0 ]" "debootstrap:command -v debootstrap" \
              "mount namespaces:unshare --mount --pid --fork true"; do
  if ! bash -c "${reason#*:}" >/dev/null 2>&1; then
    echo "FRESH MACHINES NOT TRIED: this needs ${reason%%:*}" >&2
    exit 0
  fi
done

trap 'exit 130' INT TERM
if [ -n "$keep" ]; then
  for release in "$@"; do try_release "$release" "/var/tmp/paceline-fresh-$release"; done
  exit
fi
place=$(mktemp -d /var/tmp/paceline-fresh-XXXXXX)
# The mounts are invisible here, so that this removes only what was written into the roots.
trap 'rm -rf --one-file-system "$place"' EXIT
for release in "$@"; do
  try_release "$release" "$place/$release"
  rm -rf --one-file-system "${place:?}/$release"
done
