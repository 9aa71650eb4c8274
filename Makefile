# `make demo` runs the main job, `make test` passes the tests. Both do all of their own set-up, once.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Of these .venv is made with the first that will do, which pyproject.toml says; PYTHON=python3.12 names the only one.
MINORS = $(shell sed -n 's/^requires-python = ">=3\.\([0-9]*\),<3\.\([0-9]*\)".*/\1 \2/p' pyproject.toml | \
	{ read -r oldest limit && seq $$((limit - 1)) -1 $$oldest; })
PYTHON ?= python3 $(MINORS:%=python3.%)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
# What a shell may have set for other work, such as one of ROS or conda: packages would be installed elsewhere, other ones
# imported, or the firmware built with other flags than its manifest says. With PYTHONDONTWRITEBYTECODE, each of the
# hundreds of processes that the tests start would compile all that it imports, and each worker all tests.
unexport PYTHONDONTWRITEBYTECODE PYTHONHOME PYTHONPATH PYTHONUSERBASE PIP_TARGET PIP_PREFIX PIP_ROOT PIP_USER PIP_PYTHON
unexport CC CXX CFLAGS CXXFLAGS LDFLAGS ASM ASMFLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH COMPILER_PATH \
	GCC_EXEC_PREFIX CMAKE_TOOLCHAIN_FILE CMAKE_GENERATOR CMAKE_BUILD_TYPE
# The boards of harness/socs, on which the tests run: what the firmware's build has to know of each is generated
# (harness/socs/firmware_files.py). Those of harness/boards/data are one build more, `make boards`.
BOARDS := $(patsubst firmware/boards/%/soc.h,%,$(sort $(wildcard firmware/boards/corstone*/soc.h)))
ELFS := $(BOARDS:%=build/firmware/%/ethos-hil.elf)
MANIFESTS := $(BOARDS:%=build/firmware/%/ethos-hil.json)
JOBS ?= $(shell nproc)
# Of `make fuzz`: for each fuzzer, boots of damaged programs, and loads through hostile servers.
SECONDS := 120
MUTANTS := 1000
SERVERS := 1000

.PHONY: help setup demo check test suites lint format bench conformance fuzz upstream lab peers matrix zoo fvp-check firmware boards \
	wheel wheelhouse lock docs docs-links clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

setup: build/.apt .venv/.installed $(ELFS) $(MANIFESTS) ## Everything the other commands need: apt packages, .venv, firmware

demo: setup ## Train a digit classifier and run it, verified, on the virtual Corstone-300
	@$(BIN)/python -m ethos_hil.suites.demo

test: setup lint ## All tests of the product but the proofs, with a sample of the suites on the strict virtual board
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not proof and not lab" --one-in 64 \
	  --strict-board --if-changed --longest-first

check: setup ## Lint, types, and the fast tests of what changed since the last commit on main
	@$(BIN)/python -m ethos_hil.suites.lab check

suites: setup ## Every operator and model in every profile, on the virtual target; OPTIONS='--one-in 8' runs fewer
	$(BIN)/python -m pytest suites -n $(JOBS) --dist worksteal $(OPTIONS)

lint: setup ## ruff, mypy, clang-format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	clang-format --dry-run --Werror $$(git ls-files -co --exclude-standard 'firmware/*.h' 'firmware/*.cc' ':!firmware/link/formats.h')

format: setup ## Format the code in place
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	clang-format -i $$(git ls-files -co --exclude-standard 'firmware/*.h' 'firmware/*.cc' ':!firmware/link/formats.h')

bench: setup ## Print sizes, times and ratios, measured now on this machine
	@$(BIN)/python -m ethos_hil.suites.lab self-bench

conformance: setup build/tflite-micro/.installed ## Compare every operator on every Ethos-U with TOSA and TensorFlow Lite Micro (minutes)
	@$(BIN)/python -m ethos_hil.suites.lab conformance -j $(JOBS)
	@$(BIN)/python -m ethos_hil.suites.lab tflite -j $(JOBS)

fuzz: setup ## Damaged command streams, programs, delegates and frames: minutes, SECONDS=1200 MUTANTS=5000 for an hour
	@$(BIN)/python -m ethos_hil.suites.lab streams -j $(JOBS)
	@$(BIN)/python -m ethos_hil.suites.lab servers -n $(SERVERS) -j $(JOBS)
	@cd firmware && cmake --preset host >/dev/null && cmake --build --preset fuzz -- --quiet
	@$(BIN)/python -m ethos_hil.suites.lab fuzzers --seconds $(SECONDS)
	@$(BIN)/python -m ethos_hil.suites.lab programs -n $(MUTANTS) -j $(JOBS)

lab: setup ## Everything that proves the product, for nightly use (hours); PARTS="conformance fuzz" runs some of it
	@$(BIN)/python -m ethos_hil.suites.lab all $(PARTS) -j $(JOBS)

upstream: setup ## ExecuTorch's own Arm and Cortex-M tests on the virtual boards, an hour or two; SAMPLE=60 runs so many of them
	@$(BIN)/python -m ethos_hil.suites.lab upstream -j $(JOBS) --resume $(if $(SAMPLE),--sample $(SAMPLE),--json docs/data/upstream.json)

fvp-check: setup ## With an FVP of Arm's: programs, tests and cycles on it, in one file to send; TARGET=corstone-300
	@$(BIN)/python -m ethos_hil.suites.lab fvp-check $(if $(TARGET),--target $(TARGET))

peers: setup build/peers/.installed ## Arm's MLIA with its own runner, unchanged, on the FVP launchers: its cycles are the NPU model's
	@$(BIN)/python -m pytest -q suites/lab/prove/peers

matrix: setup ## A sample of the suites with each upstream, for docs/compatibility.md (half an hour); ROWS="executorch==1.5.0" runs that
	@$(BIN)/python -m ethos_hil.suites.lab matrix $(ROWS) -j $(JOBS)

zoo: setup build/zoo/.installed ## 138 architectures of torchvision, timm, transformers and our own on five NPUs (three hours); FEW="unet resnet18" runs those
	@$(BIN)/python -m ethos_hil.suites.lab zoo $(FEW) -j $(JOBS) --resume $(if $(FEW),,--json docs/data/zoo.json)

firmware: build/.apt .venv/.installed ## Build the firmware again
	cd firmware && for board in $(BOARDS); do cmake --preset $$board && cmake --build --preset $$board || exit; done

boards: build/.apt .venv/.installed ## Build the firmware of all boards but the Corstones
	@$(call lock,build/firmware/boards.lock,the firmware of the boards); cd firmware && cmake --preset boards >/dev/null && \
	cmake --build --preset boards

# build/lib is setuptools' own, and keeps modules that are gone since. setup.py puts the list of parts into the wheel.
wheel: setup boards ## Build a wheel with the firmware of all boards and a list of its parts, into dist/
	@rm -rf build/lib build/bdist.*
	@PYTHONPATH=src $(BIN)/python -m ethos_hil.suites.lab materials build/ethos-hil.cdx.json
	@$(PIP) wheel --no-deps --no-build-isolation -w dist .
	@rm -rf build/lib build/bdist.* build/ethos-hil.cdx.json
	@ls dist/*.whl

wheelhouse: setup ## Download every package into build/wheelhouse, for make setup without a network (docs/install.md)
	@rm -rf build/wheelhouse.new
	@sed -n 's/^\([^ #]*==[^ ]*\).*/\1/p' requirements.lock requirements-build.lock requirements-torch.lock > build/wheelhouse.pins
	@$(PIP) download --no-deps --require-hashes --no-build-isolation -d build/wheelhouse.new -r requirements-build.lock -r requirements.lock
	@$(PIP) download --no-build-isolation -d build/wheelhouse.new -c build/wheelhouse.pins $$(cat .venv/.torch)
	@rm -rf build/wheelhouse build/wheelhouse.pins && mv build/wheelhouse.new build/wheelhouse
	@du -sh build/wheelhouse

lock: setup ## Write the locks again: what .venv has, with the hashes of all files of each release; needs a network
	@$(PIP) freeze --all --exclude-editable --exclude pip --exclude setuptools --exclude torch > build/lock.in
	@$(PIP) freeze --all | grep ^setuptools== > build/lock-build.in
	@for part in "" -build; do $(BIN)/uv pip compile -q --no-deps --generate-hashes --no-annotate --no-header \
	  --python $(BIN)/python --python-version 3.$(lastword $(MINORS)) build/lock$$part.in -o build/lock$$part.out && \
	  { grep '^#' requirements$$part.lock && cat build/lock$$part.out; } > build/lock$$part.new || exit; done
	@mv build/lock.new requirements.lock && mv build/lock-build.new requirements-build.lock
	@rm build/lock*.in build/lock*.out
	@$(BIN)/python -m ethos_hil.suites.lab run-locks

docs: setup ## Build the site of the documents, build/docs/index.html; warnings and broken links are errors
	@$(BIN)/python -m sphinx -E -W --keep-going -q -c docs . build/docs
	@echo build/docs/index.html

docs-links: setup ## Try every link to another site; needs a network
	@$(BIN)/python -m sphinx -E -q -b linkcheck -c docs . build/docs-links

clean: ## Remove what was built; .venv stays
	rm -rf build dist

# What CMake, ninja or Python's venv cannot have in a path.
HASH := \#
TROUBLE := $(strip $(foreach one,$$ " ; $(HASH) \ = :,$(findstring $(one),$(CURDIR))))
ifneq ($(TROUBLE),)
$(error the path of this checkout has $(TROUBLE) in it, which CMake or Python's venv cannot have: move it)
endif

# --- set-up -------------------------------------------------------------------------------------------------------
# Each step may be killed at any moment, and the next `make setup` mends what it left: what says that a step is done is
# written last. A step that waits for another make says so.

PACKAGES := gcc-arm-none-eabi libnewlib-arm-none-eabi libstdc++-arm-none-eabi-newlib \
	qemu-system-arm cmake ninja-build gdb-multiarch clang-format clang libclang-rt-dev llvm git chromium
COMMANDS := arm-none-eabi-gcc qemu-system-arm cmake ninja gdb-multiarch clang-format clang++ llvm-symbolizer git

# $(call lock,FILE,WHAT): the rest of this shell has the file's lock, which a killed process gives back.
lock = mkdir -p $(dir $1) 2>/dev/null && { exec 9>>$1; } 2>/dev/null || { echo "$2 is not set up, and $$(id -un) cannot \
	write to $(CURDIR); let its owner run \`make setup\`, or work in a copy" >&2; exit 3; }; \
	flock -n 9 || { echo "Waiting for another make, which sets up $2" >&2; flock 9; }

# $(call apt,PACKAGES): a user without root is told what to install.
apt = as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; { $$as_root apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive $$as_root apt-get -o DPkg::Lock::Timeout=600 install -qq -y --no-install-recommends $1 >/dev/null; } || \
	{ echo "Could not install them. As root: apt-get install $1" >&2; exit 3; }

# The Python, and the build of torch for it, are decided before anything large is downloaded: .venv is the finished one or
# a new one, and .venv/.torch has what pip is to install. .venv/.begun says that pip has begun: it leaves halves of
# packages when it is killed, and takes them for whole ones afterwards, so an environment that has it and not the stamp
# .venv/.installed is made anew.
FITS = harness/doctor/suitable_python.py pyproject.toml 2>/dev/null
decide = if [ -e .venv/.installed ] && $(BIN)/python $(FITS) >/dev/null && $(PIP) --version >/dev/null 2>&1; then :; \
	elif [ -L .venv ]; then echo ".venv is a link to $$(readlink .venv), which make setup did not finish; remove the link" >&2; exit 3; \
	elif [ ! -e .venv/.torch ] || [ -e .venv/.begun ]; then \
	  python=; why=; for one in $(PYTHON); do \
	    command -v $$one >/dev/null || continue; \
	    if said="$$($$one $(FITS))"; then python=$$one; break; fi; why="$$why $$one $${said:-does not run};"; done; \
	  if [ -z "$$python" ]; then \
	    known="$$(apt-cache pkgnames python3. 2>/dev/null)"; \
	    for minor in $(MINORS); do [[ "$$known" != *python3.$$minor-venv* ]] || break; done; \
	    echo "No Python for .venv among $(PYTHON):$$why install one that will do (apt-get install python3.$$minor-venv), or name it: make setup PYTHON=..." >&2; exit 3; \
	  fi; \
	  if [ -n "$$said" ]; then echo "Installing $$said" >&2; $(call apt,$$said); fi; \
	  $$python -m venv --clear .venv; \
	fi; \
	if [ ! .venv/.torch -nt requirements-torch.lock ]; then \
	  $(BIN)/python harness/doctor/torch_build.py requirements-torch.lock >.venv/.torch.new || exit 3; mv .venv/.torch.new .venv/.torch; \
	fi

# Only asks apt when something is missing. What a killed apt left half installed counts as missing. Of NOT_EVERYWHERE Ubuntu
# has no chromium, which a test of the report needs, and 22.04 has the other in its clang.
NOT_EVERYWHERE := chromium libclang-rt-dev
build/.apt: Makefile
	@$(call lock,build/.setup.lock,the system); set -e; $(decide); missing=; \
	for command in $(COMMANDS); do command -v $$command >/dev/null || missing="$$missing $$command"; done; \
	command -v chromium google-chrome >/dev/null || ! apt-cache pkgnames chromium 2>/dev/null | grep -qx chromium || missing="$$missing chromium"; \
	[ -n "$$missing" ] || [ -e "$$(arm-none-eabi-g++ -print-file-name=libstdc++_nano.a)" ] || missing=" libstdc++"; \
	[ -n "$$missing" ] || [ -e "$$(arm-none-eabi-g++ -print-file-name=libc_nano.a)" ] || missing=" newlib"; \
	[ -n "$$missing" ] || ls "$$(clang++ -print-resource-dir)"/lib/*/libclang_rt.fuzzer-*.a >/dev/null 2>&1 || missing=" libclang-rt"; \
	half="$$(dpkg-query -W -f '$${db:Status-Status} $${Package}\n' $(PACKAGES) 2>/dev/null | sed -n 's/^\(half-[a-z]*\|unpacked\) / /p' | tr -d '\n')"; \
	missing="$$missing$$half"; \
	if [ -n "$$missing" ]; then \
	  $(BIN)/python harness/doctor/suitable_tools.py || exit 3; \
	  echo "Installing Debian packages (missing:$$missing)" >&2; \
	  [ -z "$$half" ] || $$([ "$$(id -u)" = 0 ] || echo sudo) dpkg --configure -a >/dev/null || :; \
	  $(call apt,$(filter-out $(NOT_EVERYWHERE),$(PACKAGES)) $$(apt-cache pkgnames | grep -xF $(NOT_EVERYWHERE:%=-e %))); \
	fi; \
	$(BIN)/python harness/doctor/suitable_tools.py || exit 3; \
	touch $@

# setuptools comes first: it builds what has no wheel, and no build may fetch tools that nothing pins. torch comes last,
# and with what its index's build needs besides.
.venv/.installed: requirements-build.lock requirements.lock requirements-torch.lock pyproject.toml | build/.apt
	@$(call lock,build/.setup.lock,.venv); set -e; \
	if [ -e $@ ] && [ -z "$$(find $^ -newer $@)" ]; then exit; fi; \
	$(decide); \
	echo "Setting up .venv (torch, executorch, Vela, tosa-tools ...)" >&2; \
	touch .venv/.begun; rm -f $@; \
	$(PIP) install --no-deps --require-hashes --only-binary :all: -r requirements-build.lock; \
	$(PIP) install --no-deps --require-hashes --no-build-isolation --use-pep517 -r requirements.lock; \
	$(PIP) install $$(cat .venv/.torch); \
	$(PIP) install --no-deps --no-build-isolation -e .; \
	$(PIP) check >&2; \
	touch $@

# Other people's tools that the laboratory runs, each in an environment of its own: TensorFlow Lite Micro, which
# `make conformance` compares with and whose numpy is another one, MLIA and labgrid.
# Beside .venv, not in it: its packages are the tested set. Their dependencies are in .venv.
build/zoo/.installed: suites/lab/prove/zoo/requirements.lock | .venv/.installed
	@$(call lock,build/zoo.lock,build/zoo); set -e; \
	if [ -e $@ ] && [ -z "$$(find $< -newer $@)" ]; then exit; fi; \
	echo "Setting up build/zoo" >&2; rm -rf build/zoo/packages; \
	$(PIP) install --no-deps --require-hashes --only-binary :all: --target build/zoo/packages -r $<; \
	touch $@

build/tflite-micro/.installed: suites/lab/prove/tflite/requirements.lock
build/peers/.installed: suites/lab/prove/peers/requirements.lock
build/labgrid/.installed: extra/labgrid/requirements-labgrid.txt
build/tflite-micro/.installed build/peers/.installed build/labgrid/.installed: | .venv/.installed
	@$(call lock,$(@D).lock,$(@D)); set -e; \
	if [ -e $@ ] && [ -z "$$(find $< -newer $@)" ]; then exit; fi; \
	echo "Setting up $(@D)" >&2; \
	$(BIN)/python -m venv --clear $(@D); \
	$(@D)/bin/python -m pip --disable-pip-version-check -q install --no-deps --require-hashes --only-binary :all: -r $<; \
	touch $@

# A configuration that was not finished has no build.ninja, and is made anew. The manifest is written after the ELF.
build/firmware/%/ethos-hil.elf build/firmware/%/ethos-hil.json: $(shell find firmware -name '*.cc' -o -name '*.h' -o -name '*.ld' -o -name 'CMake*' -o -name '*.cmake' -o -name presets.json -o -path '*/cmake/*.py' 2>/dev/null) | build/.apt .venv/.installed
	@$(call lock,build/firmware/$*.lock,the firmware of $*); set -e; \
	echo "Building the firmware of $*" >&2; \
	cd firmware; [ -e ../build/firmware/$*/build.ninja ] || rm -rf ../build/firmware/$*; \
	log=../build/firmware/$*.log; \
	{ cmake --preset $* && cmake --build --preset $*; } >$$log 2>&1 || { cat $$log >&2; exit 2; }; \
	cd ../build/firmware/$* && touch ethos-hil.elf && touch ethos-hil.json
