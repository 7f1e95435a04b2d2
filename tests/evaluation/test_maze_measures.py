"""The measures of skills in a maze on cases with known values."""

import numpy as np
import pytest

from skillscape.envs.mazes.layouts import load_layout, parse_layout
from skillscape.errors import UserError
from skillscape.evaluation.mazes import (
    coverage,
    measure,
    mutual_information,
    reach,
    rollouts_per_skill,
    skill_accuracy,
)

SQUARE = load_layout("square_a")
CELLS = np.asarray(SQUARE.cells, dtype=float)
START = (0.0, -0.4)


def hovering(places, rollouts=4, steps=10):
    """Skill i goes from the start to places[i] in one step and stays: [k, r, t + 1, 2]."""
    positions = np.tile(np.asarray(places, dtype=float)[:, None, None, :], (1, rollouts, steps + 1, 1))
    positions[:, :, 0] = START
    return positions


def scattered(skills, rollouts=10, steps=50, seed=0):
    """States drawn independently and uniformly from the whole maze, for every skill."""
    generator = np.random.default_rng(seed)
    shape = (skills, rollouts, steps + 1)
    middles = CELLS[generator.integers(len(CELLS), size=shape)]
    positions = middles + generator.uniform(-0.49, 0.49, size=(*shape, 2))
    positions[:, :, 0] = START
    return positions


def open_maze(side):
    """A square without inner walls."""
    return parse_layout("\n".join(["S" + "." * (side - 1), *["." * side] * (side - 1)]), f"open {side}")


def wandering(layout, skills, rollouts, seed, steps=50, pull=0.3, noise=0.3):
    """Walks from the middle of an open rectangle around a maze, pulled to a place of each skill; [k, r, t + 1, 2]."""
    generator = np.random.default_rng(seed)
    low, high = open_bounds(layout)
    homes = low + (high - low) * np.random.default_rng(skills).uniform(0.1, 0.9, size=(skills, 1, 2))
    place = np.broadcast_to((low + high) / 2, (skills, rollouts, 2))
    path = [place]
    for _ in range(steps):
        toward = homes - place
        toward = toward / np.maximum(1, np.linalg.norm(toward, axis=-1, keepdims=True))
        place = place + np.clip(pull * toward + noise * generator.normal(size=place.shape), -0.95, 0.95)
        place = np.where(place < low, 2 * low - place, np.where(place > high, 2 * high - place, place))
        path.append(place)
    return np.stack(path, axis=2)


def open_bounds(layout):
    """Corners of a rectangle without solid cells: all of an open maze, the first column of square_a."""
    if layout is SQUARE:
        return np.array([-0.45, -4.45]), np.array([0.45, 0.45])
    low, high = layout.bounds
    return low + 1e-6, high - 1e-6


def quarter_centres(cell):
    """Centres of the sixteen quarter-cells of a cell, [16, 2]."""
    offsets = -0.375 + 0.25 * np.arange(4)
    return np.asarray(cell) + np.stack(np.meshgrid(offsets, offsets), axis=-1).reshape(16, 2)


def test_skills_with_one_distribution_carry_no_information():
    positions = scattered(skills=5, rollouts=40)
    assert mutual_information(positions, SQUARE).value < 0.01
    assert skill_accuracy(positions, SQUARE).value == pytest.approx(1 / 5, abs=0.02)


def test_identical_rollouts_give_exactly_chance():
    positions = np.repeat(scattered(skills=1), 4, axis=0)
    assert skill_accuracy(positions, SQUARE).value == pytest.approx(1 / 4, abs=1e-12)
    assert mutual_information(positions, SQUARE).value == pytest.approx(0, abs=1e-6)


def test_skills_in_separate_cells_are_perfectly_discriminable():
    positions = hovering(CELLS[:10], rollouts=20)
    assert mutual_information(positions, SQUARE).value == pytest.approx(np.log(10), abs=0.01)
    assert skill_accuracy(positions, SQUARE) == (1.0, 0.0)


def test_half_overlap_of_two_skills():
    # Half of each skill's time is in a shared cell: I = (H(S) = 3/2 log 2) + (H(Z) = log 2) − (H(S, Z) = 2 log 2). A
    # guess is sure in the private cells and a coin toss in the shared one.
    positions = hovering([(0, -2), (0, -4)], rollouts=20)
    positions[:, :, 6:] = (2, -2)
    assert mutual_information(positions, SQUARE).value == pytest.approx(np.log(2) / 2, abs=0.01)
    assert skill_accuracy(positions, SQUARE).value == pytest.approx(0.75)


def test_the_start_is_excluded_from_information_and_accuracy():
    # One step only: half of all states are the common start.
    positions = hovering([(0, -2), (0, -4)], steps=1, rollouts=20)
    assert mutual_information(positions, SQUARE).value == pytest.approx(np.log(2), abs=0.01)
    assert skill_accuracy(positions, SQUARE).value == 1.0


def test_shuffled_labels_leave_no_information():
    # Rollouts that each stay in one place of their own are the hardest case: counts of states look like evidence.
    generator = np.random.default_rng(0)
    places = CELLS[generator.integers(len(CELLS), size=(10, 20))] + generator.uniform(-0.4, 0.4, size=(10, 20, 2))
    positions = np.repeat(places[:, :, None], 51, axis=2)
    information, accuracy = mutual_information(positions, SQUARE), skill_accuracy(positions, SQUARE)
    assert information.value <= 0.01
    assert accuracy.value == pytest.approx(1 / 10, abs=0.05)


def test_walls_stop_the_smoothing():
    # Two corridors a wall apart, never the same quarter-cell twice within a skill.
    generator = np.random.default_rng(0)
    upper = np.stack([generator.uniform(-0.45, 2.45, (20, 11)), generator.uniform(-2.45, -2.05, (20, 11))], axis=-1)
    lower = np.stack([generator.uniform(-0.45, 2.45, (20, 11)), generator.uniform(-3.95, -3.55, (20, 11))], axis=-1)
    positions = np.stack([upper, lower])
    assert skill_accuracy(positions, SQUARE).value == 1.0
    assert mutual_information(positions, SQUARE).value == pytest.approx(np.log(2), abs=0.03)


def test_unseen_quarter_cells_fall_back_on_the_cell():
    positions = hovering([(0, -2), (0, -4)], rollouts=2)
    positions[:, 0, 1:] += (0.3, 0.3)
    positions[:, 1, 1:] -= (0.3, 0.3)
    assert skill_accuracy(positions, SQUARE).value == 1.0


def test_the_standard_error_agrees_with_repetitions():
    repeated = [mutual_information(wandering(SQUARE, 4, 20, seed), SQUARE) for seed in range(12)]
    spread = np.std([information.value for information in repeated])
    assert spread / 2 < np.mean([information.error for information in repeated]) < 2 * spread


def test_information_and_accuracy_are_undefined_for_one_skill():
    measures = measure(scattered(skills=1), SQUARE)
    assert measures.coverage > 0
    assert measures[2:] == (None, None, None, None)
    with pytest.raises(UserError, match="at least 2 skills"):
        mutual_information(scattered(skills=1), SQUARE)


def test_coverage_counts_quarter_cells_once():
    centres = quarter_centres((0, 0))
    positions = np.tile(centres[5], (2, 3, 6, 1))
    positions[0, 0, 1:4] = centres[[1, 9, 10]]
    positions[1, 2, 1:3] = centres[[1, 15]]
    assert coverage(positions, SQUARE) == pytest.approx(5 / (16 * 17))


def test_coverage_of_everything_is_one():
    everywhere = np.concatenate([quarter_centres(cell) for cell in CELLS])
    assert coverage(everywhere[None, None], SQUARE) == 1.0
    assert coverage(everywhere[None, None, :-1], SQUARE) == pytest.approx(1 - 1 / 272)


@pytest.mark.parametrize(
    ("place", "moves"),
    [((0, 0), 0), ((0, -4), 4), ((2, 0), 6), ((4, -1), 11), ((4, 0), 12)],
)
def test_reach_counts_moves_around_walls(place, moves):
    # One single visit by one skill is enough.
    positions = hovering([(0, 0), (0, 0)])
    positions[1, 2, 5] = place
    assert reach(positions, SQUARE) == pytest.approx(moves / 12)


def test_coverage_and_reach_are_those_of_200_episodes():
    # Of 1,000 rollouts of one policy, one goes far; 200 of them find it with a chance of 1/5.
    positions = np.zeros((1, 1000, 3, 2))
    positions[0, 123, 1:] = (0, -4)
    assert coverage(positions, SQUARE) == pytest.approx((1 + 1 / 5) / 272)
    assert reach(positions, SQUARE) == pytest.approx(4 / 12 / 5)
    # With up to 200 episodes all of them count, whatever the number of skills.
    assert coverage(positions[:, 24:224], SQUARE) == pytest.approx(2 / 272)
    assert reach(positions[:, 24:224], SQUARE) == pytest.approx(4 / 12)
    shared = positions[:, :500].reshape(10, 50, 3, 2)
    assert coverage(shared, SQUARE) == pytest.approx((1 + 20 / 50) / 272)


def test_coverage_does_not_depend_on_the_number_of_rollouts():
    walks = wandering(SQUARE, 4, 400, seed=0)
    few, many = np.mean([coverage(walks[:, i : i + 50], SQUARE) for i in range(0, 400, 50)]), coverage(walks, SQUARE)
    assert few == pytest.approx(many, abs=0.01)


@pytest.mark.parametrize(
    ("least", "skills", "cells", "wanted"),
    [(20, 10, 17, 20), (20, 20, 17, 20), (20, 2, 17, 100), (20, 1, 17, 200), (20, 10, 900, 200), (4, 1, 17, 40)],
)
def test_more_rollouts_with_few_skills_and_in_large_mazes(least, skills, cells, wanted):
    layout = open_maze(round(cells**0.5)) if cells > 17 else SQUARE
    assert rollouts_per_skill(least, skills, layout) == wanted


def test_the_order_of_skills_does_not_matter():
    positions = scattered(skills=6, rollouts=4, steps=8, seed=1)
    shuffled = positions[np.random.default_rng(2).permutation(6)]
    np.testing.assert_allclose(measure(shuffled, SQUARE), measure(positions, SQUARE), rtol=1e-12)


def test_measure_gathers_all_numbers():
    positions = scattered(skills=3, rollouts=4, steps=8).astype(np.float32)
    measures = measure(positions, SQUARE)
    assert measures.coverage == coverage(positions, SQUARE)
    assert measures.reach == reach(positions, SQUARE)
    information, accuracy = mutual_information(positions, SQUARE), skill_accuracy(positions, SQUARE)
    assert (measures.mutual_information, measures.mutual_information_error) == information
    assert (measures.skill_accuracy, measures.skill_accuracy_error) == accuracy


@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 4, 5, 3), (3, 4, 1, 2), (0, 4, 5, 2)])
def test_wrong_shapes_are_refused(shape):
    with pytest.raises(UserError, match="skills, rollouts, steps"):
        measure(np.zeros(shape), SQUARE)


@pytest.mark.parametrize(("value", "message"), [(np.nan, "finite"), (np.inf, "finite"), (9.0, "outside of square_a")])
@pytest.mark.parametrize("function", [coverage, reach, mutual_information, skill_accuracy])
def test_bad_positions_are_refused(function, value, message):
    positions = hovering([(0, -2), (0, -4)])
    positions[1, 2, 3, 0] = value
    with pytest.raises(UserError, match=message):
        function(positions, SQUARE)


def test_solid_rock_inside_the_bounds_is_outside():
    positions = hovering([(0, -2), (0, -4)])
    positions[0, 0, 3] = (1.0, -1.0)
    with pytest.raises(UserError, match=r"1 positions lie outside of square_a, the first at \(1.000, -1.000\)"):
        measure(positions, SQUARE)


def test_one_rollout_is_too_few_for_accuracy():
    with pytest.raises(UserError, match="at least 2 rollouts per skill"):
        skill_accuracy(hovering([(0, -2), (0, -4)], rollouts=1), SQUARE)
