"""Figures: published curves are drawn as published, gaps are named, bytes are stable."""

from __future__ import annotations

import hashlib

import pytest

from figures.__main__ import module, names, needs_results
from figures.picture import COLUMNS, write
from figures.style import METHODS, in_order, look
from harness.aggregation import method_names
from harness.analysis.collect import REFERENCE, collect


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return collect(tmp_path_factory.mktemp("no-runs"), REFERENCE)


@pytest.mark.parametrize("name", [name for name in names() if needs_results(name)])
def test_every_figure_builds_from_published_data_alone(published, name):
    picture = module(name).build(published)
    assert list(picture.data.columns) == COLUMNS
    assert picture.caption
    assert len(picture.data) or picture.missing


def test_figure_1_draws_the_published_peaks(published):
    data = module("fig01_format_density").build(published).data
    curve = data[data["panel"].str.contains("density") & (data["series"] == "published median")]
    peaks = {
        method: (round(part["value"].max(), 3), int(part.loc[part["value"].idxmax(), "step"]))
        for method, part in curve.groupby("method")
    }
    assert peaks == {
        "grpo": (0.447, 28),
        "gdpo": (0.365, 14),
        "dara_sym": (0.512, 10),
        "dara_asym": (0.512, 10),
    }


def test_the_energy_figure_names_the_published_cap_steps(published):
    caption = module("fig_energy").build(published).caption
    assert [f"step {step}" in caption for step in (59, 62, 48)] == [True, True, True]


def test_thresholds_of_the_published_record(published):
    data = module("fig_thresholds").build(published).data
    at_99 = data[(data["step"] == 0.99) & (data["panel"] == "Qwen3-4B-Instruct")].set_index("method")["value"]
    assert {name: at_99[name] for name in ("dara_asym", "dara_sym", "gdpo")} == {
        "dara_asym": 66,
        "dara_sym": 59,
        "gdpo": 111,
    }


def test_bytes_are_stable(published, tmp_path):
    digests = []
    for folder in ("one", "two"):
        picture = module("fig_thresholds").build(published)
        paths = write(picture, tmp_path / folder)
        digests.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths})
    assert digests[0] == digests[1]
    assert len(digests[0]) == 5


def test_every_method_has_a_look_of_its_own():
    assert set(method_names()) <= set(METHODS)
    looks = [(item.color, item.marker) for item in METHODS.values()]
    assert len(set(looks)) == len(looks)
    assert look("mine").label == "mine"
    assert in_order({"mine", "gdpo", "grpo"}) == ["grpo", "gdpo", "mine"]
