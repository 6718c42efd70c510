#!/usr/bin/env bash
# format.sh [--fix]: clang-format over src. Version 14 decides, because versions differ in taste.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=14
tool=$(command -v clang-format-$wanted || command -v clang-format || true)
version=
[ -z "$tool" ] || version=$("$tool" --version | grep -oE 'version [0-9]+' | head -1 | cut -d' ' -f2)
if [ "$version" != "$wanted" ]; then
  echo "FORMAT NOT CHECKED: needs clang-format $wanted, this machine has ${version:-none}" >&2
  exit 77
fi
mode=(--dry-run -Werror)
[ "${1:-}" = --fix ] && mode=(-i)
find $(ls -d src tests bench 2>/dev/null) \( -name '*.h' -o -name '*.cc' \) | sort |
  xargs "$tool" --style=file "${mode[@]}"
[ "${1:-}" = --fix ] || echo "format: as clang-format $wanted would write it"
