"""Types of what `ethos_hil` offers. Made by `python -m ethos_hil.harness.testing.stub`; do not edit."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ethos_hil.base.errors import CompileError as CompileError
from ethos_hil.base.errors import EthosHilError as EthosHilError
from ethos_hil.base.errors import OracleError as OracleError
from ethos_hil.base.errors import TargetError as TargetError
from ethos_hil.base.errors import TargetNotAvailable as TargetNotAvailable
from ethos_hil.base.errors import ToolError as ToolError
from ethos_hil.base.errors import UsageError as UsageError
from ethos_hil.base.options import Scheme as Scheme
from ethos_hil.base.question import Question as Question
from ethos_hil.base.record import Record as Record
from ethos_hil.base.verdict import FailureKind as FailureKind
from ethos_hil.base.verdict import Verdict as Verdict
from ethos_hil.harness.api import Inputs as Inputs
from ethos_hil.harness.api import Model as Model
from ethos_hil.harness.api import OpenTarget as OpenTarget
from ethos_hil.harness.api import target as target
from ethos_hil.harness.dry_run.survey import Survey as Survey
from ethos_hil.harness.evaluate.evaluation import Evaluation as Evaluation
from ethos_hil.harness.terminal.progress import Reporter as Reporter
from ethos_hil.harness.verdict.result import NotVerified as NotVerified
from ethos_hil.harness.verdict.result import Result as Result
from ethos_hil.lowering.artifact import Artifact as Artifact
from ethos_hil.lowering.made_from.file_watch import depends_on as depends_on
from ethos_hil.results.comparison import Incomparable as Incomparable
from ethos_hil.results.comparison import ProfileComparison as ProfileComparison
from ethos_hil.results.comparison import compare as compare
from ethos_hil.results.gate.change import RunComparison as RunComparison
from ethos_hil.results.gate.gate import gate as gate
from ethos_hil.results.history import BadHistory as BadHistory
from ethos_hil.results.history import History as History

__all__: list[str]

def home_of(name: str) -> str: ...
def evaluate(
    model: Model,
    data: Any,
    inputs: Inputs | None = None,
    *,
    metric: str | Callable[[tuple[np.ndarray, ...], Any], float] | None = None,
    limit: int | None = None,
    jobs: int | None = None,
    progress: Reporter | None = None,
    method: str | None = None,
    dim: str | Sequence[str] = (),
    scheme: Scheme = "a8w8",
    calibrate: Inputs | None = None,
    int16: str | Sequence[str] = (),
    quantizer: str | Callable[[Any], Any] | None = None,
    leave: str | Sequence[str] = (),
    trust_model: bool = False,
    npu: str | None = None,
    memory_mode: str | None = None,
    system_config: str | None = None,
    vela_ini: str | os.PathLike[str] | None = None,
    optimise: str | None = None,
    arena_cache_size: int | str | None = None,
    vela_flags: str | Sequence[str] = (),
    cpu: str = "float",
    as_upstream: bool = False,
    subject: str | Sequence[str] = (),
    target: str = "virtual",
    timeout: float = 120.0,
) -> Evaluation: ...
def lower(
    model: Model,
    inputs: Inputs | None = None,
    *,
    dim: str | Sequence[str] = (),
    scheme: Scheme = "a8w8",
    calibrate: Inputs | None = None,
    int16: str | Sequence[str] = (),
    quantizer: str | Callable[[Any], Any] | None = None,
    leave: str | Sequence[str] = (),
    trust_model: bool = False,
    npu: str | None = None,
    memory_mode: str | None = None,
    system_config: str | None = None,
    vela_ini: str | os.PathLike[str] | None = None,
    optimise: str | None = None,
    arena_cache_size: int | str | None = None,
    vela_flags: str | Sequence[str] = (),
    cpu: str = "float",
    as_upstream: bool = False,
    subject: str | Sequence[str] = (),
) -> Artifact: ...
def preflight(
    model: Model,
    inputs: Inputs | None = None,
    *,
    ptd: str | Sequence[str] = (),
    method: str | None = None,
    dim: str | Sequence[str] = (),
    scheme: Scheme = "a8w8",
    calibrate: Inputs | None = None,
    int16: str | Sequence[str] = (),
    quantizer: str | Callable[[Any], Any] | None = None,
    leave: str | Sequence[str] = (),
    trust_model: bool = False,
    npu: str | None = None,
    memory_mode: str | None = None,
    system_config: str | None = None,
    vela_ini: str | os.PathLike[str] | None = None,
    optimise: str | None = None,
    arena_cache_size: int | str | None = None,
    vela_flags: str | Sequence[str] = (),
    cpu: str = "float",
    as_upstream: bool = False,
    subject: str | Sequence[str] = (),
    target: str = "virtual",
    runner: str | os.PathLike[str] | None = None,
    allow_cpu_only: bool = False,
    require_delegated: bool = False,
    max_cpu_ops: int | None = None,
    min_npu_share: float | str | None = None,
) -> Survey: ...
def profile(
    model: Model,
    inputs: Inputs | None = None,
    *,
    progress: Reporter | None = None,
    ptd: str | Sequence[str] = (),
    method: str | None = None,
    dim: str | Sequence[str] = (),
    scheme: Scheme = "a8w8",
    calibrate: Inputs | None = None,
    int16: str | Sequence[str] = (),
    quantizer: str | Callable[[Any], Any] | None = None,
    leave: str | Sequence[str] = (),
    trust_model: bool = False,
    npu: str | None = None,
    memory_mode: str | None = None,
    system_config: str | None = None,
    vela_ini: str | os.PathLike[str] | None = None,
    optimise: str | None = None,
    arena_cache_size: int | str | None = None,
    vela_flags: str | Sequence[str] = (),
    cpu: str = "float",
    as_upstream: bool = False,
    subject: str | Sequence[str] = (),
    target: str = "virtual",
    strict: bool = False,
    strict_board: bool = False,
    fast: bool = False,
    clock: str | None = None,
    repeat: int | None = None,
    expected: Inputs | None = None,
    atol: float = 0.0,
    rtol: float = 0.0,
    min_sqnr: float | None = None,
    allow_cpu_only: bool = False,
    require_delegated: bool = False,
    max_cpu_ops: int | None = None,
    min_npu_share: float | str | None = None,
    timeout: float = 600.0,
    found_by: str | None = None,
    events: str | Sequence[str] = ("npu_active", "mac_active", "output_active", "weight_decoder_active"),
) -> Result: ...
def run(
    model: Model,
    inputs: Inputs | None = None,
    *,
    progress: Reporter | None = None,
    ptd: str | Sequence[str] = (),
    method: str | None = None,
    dim: str | Sequence[str] = (),
    scheme: Scheme = "a8w8",
    calibrate: Inputs | None = None,
    int16: str | Sequence[str] = (),
    quantizer: str | Callable[[Any], Any] | None = None,
    leave: str | Sequence[str] = (),
    trust_model: bool = False,
    npu: str | None = None,
    memory_mode: str | None = None,
    system_config: str | None = None,
    vela_ini: str | os.PathLike[str] | None = None,
    optimise: str | None = None,
    arena_cache_size: int | str | None = None,
    vela_flags: str | Sequence[str] = (),
    cpu: str = "float",
    as_upstream: bool = False,
    subject: str | Sequence[str] = (),
    target: str = "virtual",
    runner: str | os.PathLike[str] | None = None,
    strict: bool = False,
    strict_board: bool = False,
    fast: bool = False,
    clock: str | None = None,
    repeat: int | None = None,
    expected: Inputs | None = None,
    atol: float = 0.0,
    rtol: float = 0.0,
    min_sqnr: float | None = None,
    allow_cpu_only: bool = False,
    require_delegated: bool = False,
    max_cpu_ops: int | None = None,
    min_npu_share: float | str | None = None,
    timeout: float = 120.0,
    profile: bool = False,
    found_by: str | None = None,
    events: str | Sequence[str] = ("npu_active", "mac_active", "output_active", "weight_decoder_active"),
) -> Result: ...
