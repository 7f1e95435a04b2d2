"""The measures of skills in a maze, on cases whose value is known."""

import numpy as np
import pytest

from skillscape.envs.layouts import load_layout
from skillscape.errors import UserError
from skillscape.evaluation.mazes import (
    coverage,
    distinguishability,
    entropy,
    measure,
    mutual_information,
    reach,
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
    """States drawn independently and uniformly from the whole maze, the same law for every skill."""
    generator = np.random.default_rng(seed)
    shape = (skills, rollouts, steps + 1)
    middles = CELLS[generator.integers(len(CELLS), size=shape)]
    positions = middles + generator.uniform(-0.49, 0.49, size=(*shape, 2))
    positions[:, :, 0] = START
    return positions


def quarter_centres(cell):
    """Centres of the sixteen quarter-cells of a cell, [16, 2]."""
    offsets = -0.375 + 0.25 * np.arange(4)
    return np.asarray(cell) + np.stack(np.meshgrid(offsets, offsets), axis=-1).reshape(16, 2)


def test_skills_with_one_law_cannot_be_told_apart():
    positions = scattered(skills=5, rollouts=40)
    assert distinguishability(positions, SQUARE) < 0.01
    assert skill_accuracy(positions, SQUARE) == pytest.approx(1 / 5, abs=0.02)


def test_identical_rollouts_give_exactly_chance():
    positions = np.repeat(scattered(skills=1), 4, axis=0)
    assert skill_accuracy(positions, SQUARE) == pytest.approx(1 / 4, abs=1e-12)
    assert distinguishability(positions, SQUARE) == 0.0


def test_skills_in_separate_cells_are_told_apart_perfectly():
    positions = hovering(CELLS[:10])
    assert distinguishability(positions, SQUARE) == pytest.approx(np.log(10))
    assert skill_accuracy(positions, SQUARE) == 1.0


def test_half_overlap_of_two_skills():
    # Half of each skill's time is in a shared cell: H(S) = 3/2 log 2, H(S, Z) = 2 log 2, and the corrections cancel
    # (2 + 1 − 3 = 0). A guess is sure in the private cells and a coin toss in the shared one.
    positions = hovering([(0, -2), (0, -4)])
    positions[:, :, 6:] = (2, -2)
    assert distinguishability(positions, SQUARE) == pytest.approx(np.log(2) / 2)
    assert skill_accuracy(positions, SQUARE) == pytest.approx(0.75)


def test_information_of_a_table_done_by_hand():
    # Places a, b, c seen (3, 1, 0) times with skill 0 and (0, 2, 2) times with skill 1.
    counts = np.array([[3, 1, 0], [0, 2, 2]])
    places = -(2 * 3 / 8 * np.log(3 / 8) + 1 / 4 * np.log(1 / 4))
    pairs = -(3 / 8 * np.log(3 / 8) + 1 / 8 * np.log(1 / 8) + 2 * 1 / 4 * np.log(1 / 4))
    plug_in = places + np.log(2) - pairs
    assert mutual_information(counts, corrected=False) == pytest.approx(plug_in)
    # Bins in use: three places, two skills, four pairs; (3 − 1) + (2 − 1) − (4 − 1) = 0.
    assert mutual_information(counts) == pytest.approx(plug_in)
    # An independent pair where the corrections do not cancel: two, two and four bins.
    assert mutual_information(np.array([[5, 5], [5, 5]])) == pytest.approx((1 + 1 - 3) / 40)


def test_the_correction_removes_most_of_the_bias():
    generator = np.random.default_rng(0)
    joint = generator.dirichlet(np.ones(4 * 15)).reshape(4, 15)
    truth = np.sum(joint * np.log(joint / joint.sum(0) / joint.sum(1, keepdims=True)))
    samples = generator.multinomial(600, joint.ravel(), size=300).reshape(300, 4, 15)
    plain = np.mean([mutual_information(counts, corrected=False) for counts in samples]) - truth
    better = np.mean([mutual_information(counts) for counts in samples]) - truth
    assert plain > 0.02
    assert abs(better) < 0.3 * plain

    uniform = generator.multinomial(200, np.full(20, 1 / 20), size=300)
    assert np.mean([entropy(counts, corrected=False) for counts in uniform]) < np.log(20) - 0.03
    assert np.mean([entropy(counts) for counts in uniform]) == pytest.approx(np.log(20), abs=0.005)


def test_the_start_does_not_count_against_telling_apart():
    # One step only: half of all states are the common start.
    positions = hovering([(0, -2), (0, -4)], steps=1)
    assert distinguishability(positions, SQUARE) == pytest.approx(np.log(2))
    assert skill_accuracy(positions, SQUARE) == 1.0


def test_accuracy_is_measured_on_rollouts_not_fitted_on():
    # Each rollout stays in a cell of its own, so nothing learned from one half helps on the other.
    positions = np.tile(CELLS[:16].reshape(4, 4, 1, 2), (1, 1, 11, 1))
    positions[:, :, 0] = START
    assert skill_accuracy(positions, SQUARE) == pytest.approx(1 / 4)


def test_halves_are_halves():
    # Skill 1 alternates between two cells; two rollouts are enough to know both, one is not.
    positions = hovering([(0, -2), (0, -4)])
    positions[1, 1::2, 1:] = (2, -4)
    assert skill_accuracy(positions, SQUARE) == 1.0


def test_unseen_quarter_cells_fall_back_on_the_cell():
    positions = hovering([(0, -2), (0, -4)], rollouts=2)
    positions[:, 0, 1:] += (0.3, 0.3)
    positions[:, 1, 1:] -= (0.3, 0.3)
    assert skill_accuracy(positions, SQUARE) == 1.0


def test_quarter_cells_count_before_cells():
    # Skill 0 is rarely in the cell where skill 1 always is, but in another corner of it.
    positions = hovering([(0, -4), (0, -2)])
    positions[0, :, -1] = (-0.3, -2.3)
    assert skill_accuracy(positions, SQUARE) == 1.0


def test_uneven_halves_test_every_rollout_once():
    positions = hovering([(0, -2), (0, -4)], rollouts=3)
    positions[0, 2, 1:] = (0, -4)
    # Fitted on rollout 0: the stray is wrong, three of four right. Fitted on 1 and 2: skill 0 has half of its counts in
    # each cell and skill 1 all in the second, so both test rollouts are right.
    assert skill_accuracy(positions, SQUARE) == pytest.approx(5 / 6)


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


def test_the_order_of_skills_does_not_matter():
    positions = scattered(skills=6, rollouts=4, steps=8, seed=1)
    shuffled = positions[np.random.default_rng(2).permutation(6)]
    np.testing.assert_allclose(measure(shuffled, SQUARE), measure(positions, SQUARE), rtol=1e-12)


def test_measure_gathers_the_four_numbers():
    positions = scattered(skills=3, rollouts=4, steps=8).astype(np.float32)
    measures = measure(positions, SQUARE)
    assert measures.coverage == coverage(positions, SQUARE)
    assert measures.reach == reach(positions, SQUARE)
    assert measures.distinguishability == distinguishability(positions, SQUARE)
    assert measures.skill_accuracy == skill_accuracy(positions, SQUARE)


@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 4, 5, 3), (3, 4, 1, 2), (0, 4, 5, 2)])
def test_wrong_shapes_are_refused(shape):
    with pytest.raises(UserError, match="skills, rollouts, steps"):
        measure(np.zeros(shape), SQUARE)


@pytest.mark.parametrize(("value", "sentence"), [(np.nan, "finite"), (np.inf, "finite"), (9.0, "outside of square_a")])
@pytest.mark.parametrize("function", [coverage, reach, distinguishability, skill_accuracy])
def test_bad_positions_are_refused(function, value, sentence):
    positions = hovering([(0, -2), (0, -4)])
    positions[1, 2, 3, 0] = value
    with pytest.raises(UserError, match=sentence):
        function(positions, SQUARE)


def test_solid_rock_inside_the_bounds_is_outside():
    positions = hovering([(0, -2), (0, -4)])
    positions[0, 0, 3] = (1.0, -1.0)
    with pytest.raises(UserError, match=r"1 positions lie outside of square_a, the first at \(1.000, -1.000\)"):
        measure(positions, SQUARE)


def test_one_rollout_is_too_few_for_accuracy():
    with pytest.raises(UserError, match="at least 2 rollouts"):
        skill_accuracy(hovering([(0, -2), (0, -4)], rollouts=1), SQUARE)
