#!/usr/bin/env bash
# fresh.sh [--demo] RELEASE…: `make demo` and the unit tests in a fresh minimal Debian.
#
# For each release (bookworm, trixie) it makes a root with debootstrap in /var/tmp, clones the last
# commit of this checkout into it, and runs the commands there; --demo leaves the unit tests out.
# The root gets the machine's apt, pip and proxy settings, its certificates, and a compiler cache in
# build/fresh/RELEASE. Needs root and debootstrap; without them it says so and ends with 0.
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

# In its own namespaces, as process 1: when it ends, the kernel ends all others and the mounts.
run_inside() {  # release root commands
  local release=$1 root=$2 cache=$PWD/build/fresh/$1
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  mkdir -p "$cache" "$root$HOME/.cache/ccache"
  mount --bind "$cache" "$root$HOME/.cache/ccache"
  local settings
  mapfile -t settings < <(env | grep -E '^(PIP_|UV_|SSL_CERT_|https?_proxy=|no_proxy=|JOBS=)')
  env -i "${settings[@]}" HOME="$HOME" LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    chroot "$root" bash -ec "cd ~/paceline; $3" < /dev/null
}

if [ "${1:-}" = --inside ]; then run_inside "$2" "$3" "$4"; exit; fi

commands="make demo; make build; make unit"
if [ "${1:-}" = --demo ]; then commands="make demo"; shift; fi
for reason in "root:[ $(id -u) -eq 0 ]" "debootstrap:command -v debootstrap" \
              "mount namespaces:unshare --mount --pid --fork true"; do
  if ! bash -c "${reason#*:}" >/dev/null 2>&1; then
    echo "FRESH MACHINES NOT TRIED: this needs ${reason%%:*}" >&2
    exit 0
  fi
done

place=$(mktemp -d /var/tmp/paceline-fresh-XXXXXX)
# The mounts are invisible here, so that this removes only what was written into the roots.
trap 'rm -rf --one-file-system "$place"' EXIT
trap 'exit 130' INT TERM
for release in "$@"; do
  start=$SECONDS
  say "$release: making a minimal root"
  make_root "$release" "$place/$release"
  say "$release: $commands"
  unshare --mount --pid --fork --kill-child --propagation private \
    tools/fresh.sh --inside "$release" "$place/$release" "$commands"
  say "$release: passed in $((SECONDS - start)) s"
  rm -rf --one-file-system "${place:?}/$release"
done
