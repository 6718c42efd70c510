#!/usr/bin/env bash
# setup.sh [PART]: what a fresh Debian 12 or Ubuntu 24.04 lacks. Without a part it is `all`:
# packages, venv and wheel.
#
#   packages  the distribution's libraries and tools, through apt-get (sudo when not root)
#   venv      .venv with torch, the test tools and the build tools of the wheel
#   wheel     the paceline wheel, built from this checkout and installed into .venv
#   k8s       what nodes of a Kubernetes cluster in the tests need; not a part of `all`
#   sinks     Spark, Ray and Flink; not a part of `all`
#   brokers   Kafka, RocketMQ and Pulsar; not a part of `all`
#   prometheus  Debian's Prometheus and promtool, into build/prometheus; not a part of `all`
#   redis     Debian's redis-server, into build/redis; not a part of `all`
#
# Safe to repeat: each part looks first and does nothing when nothing is to be done.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ cmake ninja-build pkg-config ccache lld git ca-certificates
  python3-dev python3-venv
  libgrpc++-dev libgrpc-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev
  libabsl-dev libc-ares-dev libre2-dev libssl-dev zlib1g-dev libzstd-dev
  libsqlite3-dev libevent-dev libxxhash-dev liburing-dev
  nlohmann-json3-dev libtomlplusplus-dev libprotozero-dev
  libgtest-dev libgmock-dev
  iproute2 procps openssl e2fsprogs fuse3
)

# containerd's package also starts a daemon where systemd runs; the tests do not use it.
k8s_packages=(
  containerd runc containernetworking-plugins busybox-static iptables nftables iproute2 openssl
)

say() { echo "setup: $*"; }

is_missing() { ! dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q ' installed$'; }

# The packages of the build, and a clang-format of the version that decides what is well formatted.
install_build_packages() {
  local wanted=("${packages[@]}")
  # Checks that go without.
  if ! command -v clang-format-14 >/dev/null && ! command -v clang-format >/dev/null; then
    if apt-cache show clang-format-14 >/dev/null 2>&1; then wanted+=(clang-format-14); fi
  fi
  install_packages "${wanted[@]}"
}

install_packages() {
  local missing=() package sudo=()
  for package in "$@"; do
    if is_missing "$package"; then missing+=("$package"); fi
  done
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      say "missing packages and no sudo; as root: apt-get install ${missing[*]}" >&2
      exit 1
    fi
    sudo=(sudo)
  fi
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get update -qq || say "apt-get update failed; trying with the old lists"
  "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# Prints a Python ≥ 3.11 that has its headers, preferring the distribution's.
find_python() {
  local candidate
  for candidate in /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null; then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  say "no Python 3.11 or newer found" >&2
  exit 1
}

make_venv() {
  local python uv stamp=.venv/.paceline-tools wanted
  wanted=$(sed -n '/^dev = \[/,/^\]/p' pyproject.toml | sha256sum | cut -d' ' -f1)
  if [ -x .venv/bin/python ] && [ "$(cat $stamp 2>/dev/null)" = "$wanted" ]; then return; fi
  python=$(find_python)
  if [ ! -x .venv/bin/python ]; then
    say "making .venv with $("$python" --version)"
    "$python" -m venv .venv
  fi
  uv=$(command -v uv || true)
  if [ -z "$uv" ] || ! "$uv" --version >/dev/null 2>&1; then
    [ -x .venv/bin/uv ] || .venv/bin/python -m pip install -q --disable-pip-version-check uv
    uv=.venv/bin/uv
  fi
  say "installing torch and the tools into .venv"
  # Compiled now, as pip does and uv does not by itself: importing torch takes half as long, each
  # time where PYTHONDONTWRITEBYTECODE is set.
  read_group | "$uv" pip install -q --compile-bytecode --python .venv/bin/python -r -
  echo "$wanted" > $stamp
}

# The requirements of the dependency group `dev`, one a line.
read_group() {
  .venv/bin/python - <<'EOF'
import tomllib
with open("pyproject.toml", "rb") as file:
    print("\n".join(tomllib.load(file)["dependency-groups"]["dev"]))
EOF
}

# A digest of all that the wheel is made of.
wheel_digest() {
  local parts=() part
  for part in pyproject.toml CMakeLists.txt cmake log_classes src proto python web; do
    if [ -e "$part" ]; then parts+=("$part"); fi
  done
  find "${parts[@]}" -type f ! -name '*_test.cc' ! -name '*.pyc' ! -path '*/testdata/*' -print0 |
    sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1
}

make_wheel() {
  local stamp=.venv/.paceline-wheel digest
  digest=$(wheel_digest)
  if [ "$(cat $stamp 2>/dev/null)" = "$digest" ]; then return; fi
  say "building the wheel (release, in build/release)"
  rm -rf build/wheel && mkdir -p build/wheel
  # Not isolated: the build tools are in .venv already, and a fixed path keeps build/release valid.
  PATH="$PWD/.venv/bin:$PATH" .venv/bin/python -m pip wheel -q --disable-pip-version-check \
    --no-build-isolation --no-deps -w build/wheel .
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-index \
    --force-reinstall build/wheel/paceline-*.whl
  echo "$digest" > $stamp
}

# Unpacked and not installed: the package would start a daemon, and its programs need no other one.
unpack_prometheus() {
  if command -v prometheus >/dev/null && command -v promtool >/dev/null; then return; fi
  if [ -x build/prometheus/usr/bin/promtool ]; then return; fi
  say "unpacking Debian's prometheus into build/prometheus"
  local folder
  folder=$(mktemp -d)
  mkdir -p build
  if (cd "$folder" && apt-get download -qq prometheus) &&
      dpkg-deb -x "$folder"/prometheus_*.deb "$folder/root"; then
    rm -rf build/prometheus
    mv "$folder/root" build/prometheus
  else
    say "PROMETHEUS CANNOT BE HAD; its tests are skipped" >&2
  fi
  rm -rf "$folder"
}

# Unpacked for the same reason, with the two libraries that a minimal system lacks.
unpack_redis() {
  if command -v redis-server >/dev/null || [ -x build/redis/usr/bin/redis-server ]; then return; fi
  say "unpacking Debian's redis-server into build/redis"
  local folder package
  folder=$(mktemp -d)
  mkdir -p build
  if (cd "$folder" && apt-get download -qq redis-server redis-tools libjemalloc2 liblzf1); then
    for package in "$folder"/*.deb; do dpkg-deb -x "$package" "$folder/root"; done
    rm -rf build/redis
    mv "$folder/root" build/redis
  else
    say "REDIS CANNOT BE HAD; the test of a head with Redis is skipped" >&2
  fi
  rm -rf "$folder"
}

# TensorFlow 2.15.1, the last one with Estimator, and the wheel, in an environment of their own.
make_tensorflow() {
  local uv python=build/tf/bin/python
  uv=$(command -v uv || echo .venv/bin/uv)
  if ! .venv/bin/python -c 'import sys; raise SystemExit(sys.version_info >= (3, 12))'; then
    say "TENSORFLOW 2.15.1 CANNOT BE HAD for Python 3.12 and newer; its tests are skipped" >&2
    return
  fi
  if ! $python -c 'import tensorflow' 2>/dev/null; then
    say "installing TensorFlow 2.15.1 into build/tf"
    "$uv" venv -q --clear --python .venv/bin/python build/tf
    if ! "$uv" pip install -q --compile-bytecode --python $python tensorflow==2.15.1; then
      say "TENSORFLOW 2.15.1 CANNOT BE HAD; its tests are skipped" >&2
      rm -rf build/tf
      return
    fi
  fi
  "$uv" pip install -q --python $python --no-deps --no-index --reinstall build/wheel/paceline-*.whl
}

# The sink of connectors/flink, with its test job and all jars that the job needs.
make_flink() {
  if ! command -v mvn >/dev/null || ! command -v javac >/dev/null; then
    say "FLINK CANNOT BE HAD: Maven or a JDK is missing; its tests are skipped" >&2
    return
  fi
  say "building connectors/flink into build/flink"
  if ! mvn -B -q -f connectors/flink/pom.xml test-compile \
      dependency:copy-dependencies -DoutputDirectory="$PWD/build/flink/lib"; then
    say "FLINK CANNOT BE HAD: Maven failed; its tests are skipped" >&2
    rm -rf build/flink
  fi
}

# Brokers in jars, and the clients of Pulsar and RocketMQ with the wheel in an environment of their
# own.
make_brokers() {
  local uv one python=build/brokers/python/bin/python
  uv=$(command -v uv || echo .venv/bin/uv)
  for one in kafka rocketmq pulsar; do
    [ ! -e "build/brokers/$one" ] && command -v mvn >/dev/null || continue
    say "fetching the jars of $one into build/brokers"
    mvn -B -q -f "tests/brokers/$one.xml" dependency:copy-dependencies \
        -DoutputDirectory="$PWD/build/brokers/$one" ||
      {
        say "$one CANNOT BE HAD: Maven failed; its tests are skipped" >&2
        rm -rf "build/brokers/$one"
      }
  done
  if ! $python -c 'import pulsar, pyarrow.flight, google.protobuf' 2>/dev/null; then
    "$uv" venv -q --clear --python .venv/bin/python build/brokers/python
    if ! "$uv" pip install -q --python $python \
        rocketmq-python-client pulsar-client pyarrow numpy; then
      say "THE CLIENTS OF PULSAR AND ROCKETMQ CANNOT BE HAD; their tests are skipped" >&2
      rm -rf build/brokers/python
      return
    fi
  fi
  "$uv" pip install -q --python $python --no-deps --no-index --reinstall build/wheel/paceline-*.whl
}

# Ray Data and Spark, and the wheel, in an environment of their own.
make_sinks() {
  local uv python=build/sinks/bin/python
  uv=$(command -v uv || echo .venv/bin/uv)
  if ! $python -c 'import pyspark, ray.data, pyarrow.flight' 2>/dev/null; then
    say "installing Spark and Ray Data into build/sinks"
    "$uv" venv -q --clear --python .venv/bin/python build/sinks
    if ! "$uv" pip install -q --compile-bytecode --python $python \
        'pyspark>=4.1' 'ray[data]>=2.40' pyarrow grpcio pandas; then
      say "SPARK AND RAY CANNOT BE HAD; tests of sinks are skipped" >&2
      rm -rf build/sinks
      return
    fi
  fi
  "$uv" pip install -q --python $python --no-deps --no-index --reinstall build/wheel/paceline-*.whl
}

case "${1:-all}" in
  packages) install_build_packages ;;
  venv) make_venv ;;
  wheel) make_wheel ;;
  all) install_build_packages; make_venv; make_wheel ;;
  k8s) install_packages "${k8s_packages[@]}" ;;
  prometheus) unpack_prometheus ;;
  redis) unpack_redis ;;
  tf) make_tensorflow ;;
  sinks) make_sinks; make_flink ;;
  brokers) make_brokers ;;
  *)
    echo "usage: tools/setup.sh [packages|venv|wheel|all|k8s|prometheus|redis|tf|sinks|brokers]" >&2
    exit 2
    ;;
esac
