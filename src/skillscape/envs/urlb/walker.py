"""The planar walker: stand, walk and run of the Control Suite, and the benchmark's flip."""

from typing import Any

import numpy as np
from jaxtyping import Float32

from skillscape.envs.urlb.control import Simulation, bell, load_module, rising

_STAND_HEIGHT = 1.2
_CONTROL_STEP, _TIME_LIMIT = 0.025, 25.0
# What grows with the task's motion: the target, how far below it the slope has come down to what value.
_SLOPES = {"walk": (1.0, 0.5, 0.5), "run": (8.0, 4.0, 0.5), "flip": (5.0, 5.0, 0.0)}


def build(task: str) -> Simulation:
    """The simulation of "stand", "walk", "run" or "flip".

    Standing is worth 3/4 for the torso's height and 1/4 for its being upright; the others multiply that by
    (5 motion + 1)/6, where motion rises to 1 with the speed of the centre of mass, or for flip with the angular
    momentum about the axis that points out of the plane, forwards.
    """
    walker = load_module("dm_control.suite.walker")
    control = load_module("dm_control.rl.control")
    physics = walker.Physics.from_xml_string(*walker.get_model_and_assets())

    class Flip(walker.PlanarWalker):  # type: ignore[name-defined]
        """The walker's task with the reward of flipping."""

        def get_reward(self, physics: Any) -> float:  # noqa: ANN401, ARG002  (its physics is the one beside it)
            """Worth of the present state, in [0, 1]."""
            return read()[1]

    speeds = {"stand": 0, "walk": 1, "run": 8}
    chosen = walker.PlanarWalker(move_speed=speeds[task]) if task in speeds else Flip(move_speed=0)
    environment = control.Environment(physics, chosen, time_limit=_TIME_LIMIT, control_timestep=_CONTROL_STEP)

    # Arrays of MuJoCo are windows on memory that stays where it is, so they are fetched once.
    state, torso = physics.data.ptr, physics.model.name2id("torso", "body")
    frames, positions, velocity, momentum = state.xmat, state.xpos, state.qvel, state.subtree_angmom
    sensors, speed = state.sensordata, physics.model.sensor_adr[physics.model.name2id("torso_subtreelinvel", "sensor")]

    def read() -> tuple[Float32[np.ndarray, "24"], float]:
        obs = np.empty(24, np.float32)
        # Of every body but the world, where its x-axis points in the plane.
        obs[:14].reshape(7, 2)[:] = frames[1:, 0:3:2]
        height, upright = positions.item(torso, 2), frames.item(torso, 8)
        obs[14] = height
        obs[15:] = velocity
        standing = 1.0 if height >= _STAND_HEIGHT else bell((_STAND_HEIGHT - height) / (_STAND_HEIGHT / 2))
        reward = (3 * standing + (1 + upright) / 2) / 4
        if task == "stand":
            return obs, reward
        motion = momentum.item(torso, 1) if task == "flip" else sensors.item(speed)
        return obs, reward * (5 * rising(motion, *_SLOPES[task]) + 1) / 6

    return Simulation(environment, chosen.random, round(_CONTROL_STEP / physics.timestep()), read)
