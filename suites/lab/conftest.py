"""Marks the tests below as the laboratory's, for `make lab`, but for those that are marked as guards of the product."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them before `-m` chooses."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("product") is None:
            item.add_marker("lab")
