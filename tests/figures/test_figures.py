"""Figures: published curves are drawn as published, gaps are named, bytes are stable."""

from __future__ import annotations

import hashlib

import pytest

from figures.__main__ import module, names, needs_results
from figures.looks import METHODS, in_order, look
from figures.picture import COLUMNS, write
from figures.style import NO_DATA, close_gaps, leave_out, legend_below, new_figure
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


def grid(empty: set[tuple[int, int]]):
    figure, axes = new_figure(3, 2)
    for row in range(2):
        for column in range(3):
            axis = axes[row][column]
            axis.set_title(f"column {column}" if row == 0 else "")
            axis.set_ylabel(f"row {row}" if column == 0 else "")
            axis.set_xlabel("step" if row == 1 else "")
            if (row, column) in empty:
                leave_out(axis, "not run")
    close_gaps(figure, axes)
    return figure


def test_rows_and_columns_without_data_are_taken_out_and_labels_move():
    figure = grid({(0, 0), (1, 0), (1, 1), (1, 2)})
    assert [axis.get_title() for axis in figure.axes] == ["column 1", "column 2"]
    assert [axis.get_ylabel() for axis in figure.axes] == ["row 0", ""]
    assert [axis.get_xlabel() for axis in figure.axes] == ["step", "step"]


def test_a_panel_without_data_beside_others_says_why():
    figure = grid({(1, 1)})
    assert len(figure.axes) == 6
    below = figure.axes[4]
    assert [text.get_text() for text in below.texts] == ["not run"]
    assert [axis.get_xlabel() for axis in figure.axes] == ["", "step", "", "step", "", "step"]


def test_a_figure_without_any_data_is_one_line():
    figure = grid({(row, column) for row in range(2) for column in range(3)})
    assert figure.axes == []
    assert [text.get_text() for text in figure.texts] == [NO_DATA]


@pytest.mark.parametrize("columns", [1, 2, 4])
def test_legends_stay_inside_the_figure(columns):
    figure, axes = new_figure(columns, 1, width=2.2)
    legend_below(figure, in_order(METHODS))
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.width
    assert legend.y0 >= 0
    assert axes[0][0].get_window_extent().height > 0.3 * figure.bbox.height


def test_figure_1_ticks_each_published_crossing(published):
    data = module("fig01_format_density").build(published).data
    ticks = data[data["series"] == "published crossing"]
    found = {method: sorted(part["step"]) for method, part in ticks.groupby("method")}
    assert found["dara_asym"] == [13, 13, 14, 15, 16]
    assert found["gdpo"] == [16, 18, 19, 65, 75]
    assert found["grpo"] == [31, 31, 34, 37, 43]
