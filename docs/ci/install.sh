#!/bin/sh
# What a machine of CI needs: QEMU, and the tested set of packages (docs/install.md). The wheel and its locks are in the
# repository here; an index of your own, or a container image, is faster.
set -eu
sudo apt-get update -q
sudo apt-get install -qy qemu-system-arm
pip install --no-deps -r requirements-build.lock
pip install --no-deps --no-build-isolation --use-pep517 -r requirements.lock
pip install -r requirements-torch.lock
pip install --no-deps ethos_hil-*.whl
ethos-hil doctor
