# An image with ethos-hil, for jobs of CI: Debian with its Python, QEMU, a C compiler for its plug-ins, git, the wheel and
# requirements-run.lock. DEBIAN=trixie has Python 3.13 in place of 3.11, and QEMU 10 in place of 7.2.
#
#     make wheel && docker build -t registry.example.org/ethos-hil .
ARG DEBIAN=bookworm
FROM debian:$DEBIAN-slim
RUN apt-get update -q \
    && apt-get install -qy --no-install-recommends gcc git libc6-dev python3-venv qemu-system-arm \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/ethos-hil
ENV PATH=/opt/ethos-hil/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY docs/ci/action/install.sh dist/ethos_hil-*.whl /tmp/ethos-hil/
RUN cd /tmp/ethos-hil && sh install.sh && rm -r /tmp/ethos-hil
