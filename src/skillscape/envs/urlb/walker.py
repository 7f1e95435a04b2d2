"""The planar walker: stand, walk and run of the Control Suite, and the benchmark's flip."""

import numpy as np
from jaxtyping import Float, Float32

from skillscape.envs.urlb.control import ControlTask, gaussian_tolerance, linear_tolerance, load_module, with_reward

_STAND_HEIGHT = 1.2
_CONTROL_STEP, _TIME_LIMIT = 0.025, 25.0
# Bound, margin and value at the margin of the linear tolerance of a task's speed or angular momentum.
_MOTION = {"walk": (1.0, 0.5, 0.5), "run": (8.0, 4.0, 0.5), "flip": (5.0, 5.0, 0.0)}


def build(task: str) -> ControlTask:
    """The task "stand", "walk", "run" or "flip".

    The reward of stand is 3/4 for the torso's height and 1/4 for its being upright; the others multiply it by
    (5 motion + 1)/6, where motion is a tolerance of the centre of mass's speed, or for flip of the angular momentum
    about the axis that points out of the plane, forwards.
    """
    walker = load_module("dm_control.suite.walker")
    control = load_module("dm_control.rl.control")
    physics = walker.Physics.from_xml_string(*walker.get_model_and_assets())
    speeds = {"stand": 0, "walk": 1, "run": 8, "flip": 0}
    task_class = with_reward(walker.PlanarWalker, lambda: observe()[1]) if task == "flip" else walker.PlanarWalker
    control_task = task_class(move_speed=speeds[task])
    environment = control.Environment(physics, control_task, time_limit=_TIME_LIMIT, control_timestep=_CONTROL_STEP)

    # MuJoCo's arrays are views of memory that does not move, so they are looked up once.
    state, torso = physics.data.ptr, physics.model.name2id("torso", "body")
    frames, positions, velocity, momentum = state.xmat, state.xpos, state.qvel, state.subtree_angmom
    sensors, speed = state.sensordata, physics.model.sensor_adr[physics.model.name2id("torso_subtreelinvel", "sensor")]

    def observe() -> tuple[Float32[np.ndarray, "24"], float]:
        obs = np.empty(24, np.float32)
        # The direction of the x-axis in the plane, for every body but the world.
        obs[:14].reshape(7, 2)[:] = frames[1:, 0:3:2]
        height, upright = positions.item(torso, 2), frames.item(torso, 8)
        obs[14] = height
        obs[15:] = velocity
        shortfall = (_STAND_HEIGHT - height) / (_STAND_HEIGHT / 2)
        standing = 1.0 if height >= _STAND_HEIGHT else gaussian_tolerance(shortfall)
        reward = (3 * standing + (1 + upright) / 2) / 4
        if task == "stand":
            return obs, reward
        motion = momentum.item(torso, 1) if task == "flip" else sensors.item(speed)
        return obs, reward * (5 * linear_tolerance(motion, *_MOTION[task]) + 1) / 6

    def position() -> Float[np.ndarray, "1"]:
        return np.array(positions[torso, :1])

    return ControlTask(environment, control_task.random, round(_CONTROL_STEP / physics.timestep()), observe, position)
