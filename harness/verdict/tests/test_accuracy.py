"""Quantisation error against the float model: the numbers, and the report where there are none."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from ethos_hil.base.record import Accuracy
from ethos_hil.harness.verdict.against_pytorch import accuracies
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.results.text.record import accuracy_text

INPUT = np.arange(4, dtype=np.float32)


def compare(expected: np.ndarray, output: np.ndarray) -> Accuracy:
    artifact = Artifact("", "model", None, b"", (), example_inputs=(INPUT,), floating=(expected,))
    (accuracy,) = accuracies(artifact, (INPUT.copy(),), (output,))
    return accuracy


def test_an_error_of_a_tenth_is_twenty_decibels() -> None:
    expected = np.array([[3.0, -4.0], [0.0, 0.0]])
    error = np.array([[0.0, 0.0], [0.3, -0.4]])
    accuracy = compare(expected, (expected + error).astype(np.float32))
    assert accuracy.sqnr_db == pytest.approx(20, abs=1e-5)
    assert accuracy.cosine == pytest.approx(1 / math.sqrt(1.01), abs=1e-6)
    assert accuracy.max_abs_error == pytest.approx(0.4)
    assert (accuracy.index, accuracy.expected) == ((1, 1), 0.0)
    assert accuracy.found == pytest.approx(-0.4)
    assert accuracy.reference == "PyTorch, float64"
    assert "SQNR 20.0 dB, cosine 0.995037, worst element -0.4 for 0 at [1, 1]" in accuracy_text(accuracy)


def test_equal_answers_have_no_noise_even_where_they_are_no_numbers() -> None:
    both = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
    accuracy = compare(both, both.copy())
    assert (accuracy.sqnr_db, accuracy.max_abs_error, accuracy.cosine) == (math.inf, 0.0, 1.0)
    assert accuracy.reference == "PyTorch, float32"


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_number_that_is_none_has_an_infinite_error(wrong: float) -> None:
    accuracy = compare(np.array([1.0, 2.0]), np.array([1.0, wrong]))
    assert (accuracy.sqnr_db, accuracy.max_abs_error, accuracy.index) == (-math.inf, math.inf, (1,))
    assert accuracy.cosine == 1.0, "of the elements that are finite in both"


def test_nothing_can_be_said_of_zeros() -> None:
    zeros = np.zeros(3)
    accuracy = compare(zeros, zeros)
    assert (accuracy.sqnr_db, accuracy.cosine) == (None, None)
    assert accuracy_text(accuracy).startswith("no signal, worst element")
    assert compare(zeros, np.ones(3)).sqnr_db == -math.inf


def test_a_scalar_and_truth_values_are_compared_too() -> None:
    assert compare(np.array(2.0), np.array(1.5, np.float32)).index == ()
    accuracy = compare(np.array([True, True]), np.array([True, False]))
    assert (accuracy.max_abs_error, accuracy.sqnr_db) == (1.0, pytest.approx(10 * math.log10(2)))


def test_float_is_known_for_the_example_inputs_alone() -> None:
    artifact = Artifact("", "model", None, b"", (), example_inputs=(INPUT,), floating=(INPUT,))
    assert len(accuracies(artifact, (INPUT,), (INPUT,))) == 1
    assert accuracies(artifact, (INPUT + 1,), (INPUT,)) == ()
    assert accuracies(artifact, (), (INPUT,)) == ()
    assert accuracies(artifact, (INPUT,), (INPUT, INPUT)) == ()
    assert accuracies(artifact, (INPUT,), (INPUT[:3],)) == ()
    assert accuracies(dataclasses.replace(artifact, floating=(INPUT[:0],)), (INPUT,), (INPUT[:0],)) == ()
    assert accuracies(dataclasses.replace(artifact, floating=()), (INPUT,), (INPUT,)) == ()


def test_an_error_that_points_away_has_a_negative_cosine() -> None:
    assert compare(np.array([1.0, 2.0]), np.array([-1.0, -2.0])).cosine == pytest.approx(-1)
