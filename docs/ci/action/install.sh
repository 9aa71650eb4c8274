#!/bin/sh
# Install ethos-hil from its wheel: `install.sh` in the folder that has it. The wheel also has the locks.
# The C compiler is for plug-ins of QEMU, such as the one that counts instructions for a profile.
# `install.sh merge` leaves out QEMU and all that lowers models: `ethos-hil nightly --merge` needs none of it.
set -eu
what="${1:-run}"
locks="$(mktemp -d)"
trap 'rm -rf "$locks"' EXIT
set -- ethos_hil-*.whl
if [ ! -e "$1" ] || [ $# -ne 1 ]; then
  echo "there must be one wheel of ethos-hil in $PWD (docs/install.md says how it is made), and there is: $*" >&2
  exit 2
fi
python -m zipfile -e "$1" "$locks"
if [ "$what" != merge ] && ! { command -v qemu-system-arm && command -v cc; } >/dev/null; then
  as_root=
  [ "$(id -u)" = 0 ] || as_root=sudo
  $as_root apt-get update -q
  $as_root apt-get install -qy --no-install-recommends gcc libc6-dev qemu-system-arm
fi
pip install --no-deps -r "$locks/ethos_hil/requirements-build.lock"
pip install --no-deps --no-build-isolation --use-pep517 -r "$locks/ethos_hil/requirements-$what.lock"
if [ "$what" != merge ]; then
  # PyPI's torch for Linux brings gigabytes for GPUs. This index also has builds for the CPU, which are preferred.
  PIP_EXTRA_INDEX_URL="${PIP_EXTRA_INDEX_URL-https://download.pytorch.org/whl/cpu}" \
    pip install -r "$locks/ethos_hil/requirements-torch.lock"
fi
pip install --no-deps "$1"
if [ "$what" != merge ]; then
  ethos-hil doctor
fi
