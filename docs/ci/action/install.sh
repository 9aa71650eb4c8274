#!/bin/sh
# Install ethos-hil from its wheel: `install.sh` in the folder that has it. The wheel also has the locks.
# The C compiler is for plug-ins of QEMU, such as the one that counts instructions for a profile.
# `install.sh merge` leaves out QEMU and all that lowers models: `ethos-hil nightly --merge` needs none of it.
# torch is a build for the CPU, or with TORCH=any in the environment what pip finds. Whether this Python will do, and
# whether there is such a build, is asked before anything is downloaded.
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
doctor="$locks/ethos_hil/harness/doctor"
reason="$(python "$doctor/suitable_python.py" "$locks"/*.dist-info/METADATA)" || { echo "python $reason" >&2; exit 3; }
if [ "$what" != merge ]; then
  torch="$(python "$doctor/torch_build.py" "$locks/ethos_hil/requirements-torch.lock")" || exit 3
  if ! { command -v qemu-system-arm && command -v cc; } >/dev/null; then
    as_root=
    [ "$(id -u)" = 0 ] || as_root=sudo
    $as_root apt-get update -q
    $as_root apt-get install -qy --no-install-recommends gcc libc6-dev qemu-system-arm
  fi
fi
pip install --no-deps -r "$locks/ethos_hil/requirements-build.lock"
pip install --no-deps --no-build-isolation --use-pep517 -r "$locks/ethos_hil/requirements-$what.lock"
if [ "$what" != merge ]; then
  pip install $torch
fi
pip install --no-deps "$1"
if [ "$what" != merge ]; then
  ethos-hil doctor
fi
