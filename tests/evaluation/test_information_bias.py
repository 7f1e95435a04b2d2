"""Bias of I(S;Z) and accuracy over numbers of skills, mazes and rollouts, on skills whose true values are known.

The truth is the plug-in value of so many independent states that its own bias is negligible.
"""

import numpy as np
import pytest
from test_maze_measures import open_maze, wandering

from skillscape.evaluation.mazes import measure, mutual_information

BIAS = 0.05


def blobs(layout, skills, rollouts, seed, steps=50, width=0.125):
    """Independent states around a place of each skill."""
    generator = np.random.default_rng(seed)
    low, high = layout.bounds + np.array([[1e-6], [-1e-6]])
    homes = low + (high - low) * np.random.default_rng(skills).uniform(0.1, 0.9, size=(skills, 1, 1, 2))
    return folded(homes + width * (high - low) * generator.normal(size=(skills, rollouts, steps + 1, 2)), low, high)


def folded(places, low, high):
    """Reflected at the edges until inside."""
    turned = np.mod(places - low, 2 * (high - low))
    return low + np.where(turned > high - low, 2 * (high - low) - turned, turned)


def discriminable(*arguments):
    return wandering(*arguments)


def hardly_discriminable(*arguments):
    return wandering(*arguments, pull=0.02, noise=0.5)


def indistinguishable(*arguments):
    return wandering(*arguments, pull=0.0, noise=0.5)


def truth(law, layout, skills):
    """I(S;Z) and the accuracy of the best classifier, from 1,200 episodes per skill; plug-in, extrapolated once."""
    places = 16 * len(layout.cells)
    halves = []
    for seed in (1000, 1001):
        quarters = layout.quarter_index(law(layout, skills, 600, seed)[:, :, 1:]).reshape(skills, -1)
        joint = np.arange(skills)[:, None] * places + quarters
        halves.append(np.bincount(joint.ravel(), minlength=skills * places).reshape(skills, places))
    whole = sum(halves)
    information = 2 * plug_in(whole) - np.mean([plug_in(half) for half in halves])
    return information, whole.max(axis=0).sum() / whole.sum()


def plug_in(counts):
    share = counts / counts.sum()
    seen = share > 0
    return np.sum(share[seen] * np.log((share / share.sum(0) / share.sum(1, keepdims=True))[seen]))


@pytest.mark.parametrize("law", [blobs, discriminable, hardly_discriminable, indistinguishable])
@pytest.mark.parametrize(("side", "skills"), [(4, 2), (5, 10), (10, 20), (20, 10)])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_the_bias_is_small_from_twenty_rollouts_on(law, side, skills):
    layout = open_maze(side)
    information, accuracy = truth(law, layout, skills)
    # Few skills mean few rollouts, hence more samples: the bias is tested, not the variance.
    measures = [measure(law(layout, skills, 20, seed), layout) for seed in range(12 if skills == 2 else 3)]
    assert np.mean([measured.mutual_information for measured in measures]) == pytest.approx(information, abs=BIAS)
    assert np.mean([measured.skill_accuracy for measured in measures]) == pytest.approx(accuracy, abs=BIAS)


@pytest.mark.slow
@pytest.mark.parametrize("law", [blobs, discriminable, hardly_discriminable, indistinguishable])
@pytest.mark.parametrize(("side", "skills"), [(5, 10), (10, 40), (30, 10)])
@pytest.mark.parametrize("rollouts", [50, 200])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_the_bias_stays_small_with_more(law, side, skills, rollouts):
    layout = open_maze(side)
    information, _ = truth(law, layout, skills)
    samples = [law(layout, skills, rollouts, seed) for seed in range(2)]
    estimates = [mutual_information(positions, layout).value for positions in samples]
    assert np.mean(estimates) == pytest.approx(information, abs=BIAS)


def test_shuffled_labels_carry_no_information():
    layout = open_maze(30)
    walks = wandering(layout, 10, 20, 0)
    shuffled = np.random.default_rng(0).permutation(walks.reshape(200, 51, 2)).reshape(walks.shape)
    assert mutual_information(walks, layout).value > 1.0
    assert mutual_information(shuffled, layout).value < 0.02
