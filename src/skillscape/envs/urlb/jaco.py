"""The Jaco arm: reaching for a brick that lies in one of four places."""

import logging
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32

from skillscape.envs.urlb.control import Simulation, bell, load_module

_TIME_LIMIT = 10.0
_RADIUS = 0.05
_CORNERS = {
    "reach_top_left": (-0.09, 0.09),
    "reach_top_right": (0.09, 0.09),
    "reach_bottom_left": (-0.09, -0.09),
    "reach_bottom_right": (0.09, -0.09),
}


class _Workspace(NamedTuple):
    """Where dm_control's reaching task puts things: the brick, the hand, the foot of the arm."""

    target_bbox: Any
    tcp_bbox: Any
    arm_offset: tuple[float, float, float]


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a message of dm_control is worth a line: its inverse kinematics tell of every try that is repeated."""
    return not record.getMessage().startswith("Failed to converge after")


def build(task: str) -> Simulation:
    """The simulation of "reach_top_left" and its like.

    The reward is 1 while the point between the fingers is within 5 cm of the brick, then falls like a Gaussian to a
    tenth at 10 cm. The task is dm_control's own, with the brick always in the same corner, turned at random.
    """
    composer = load_module("dm_control.composer")
    logging.getLogger("absl").addFilter(_is_news)
    reach = load_module("dm_control.manipulation.reach")
    arenas, observations, robots, workspaces, constants = (
        load_module(f"dm_control.manipulation.shared.{name}")
        for name in ("arenas", "observations", "robots", "workspaces", "constants")
    )
    settings = observations.PERFECT_FEATURES
    options = observations.make_options(settings, observations.FREEPROP_OBSERVABLES)
    brick = load_module("dm_control.entities.props").Duplo(observable_options=options)
    corner = (*_CORNERS[task], 0.001)
    arm, hand = robots.make_arm(settings), robots.make_hand(settings)
    chosen = reach.Reach(
        arena=arenas.Standard(),
        arm=arm,
        hand=hand,
        prop=brick,
        obs_settings=settings,
        workspace=_Workspace(
            workspaces.BoundingBox(lower=corner, upper=corner),
            workspaces.BoundingBox(lower=(-0.1, -0.1, 0.2), upper=(0.1, 0.1, 0.4)),
            robots.ARM_OFFSET,
        ),
        control_timestep=constants.CONTROL_TIMESTEP,
    )
    environment = composer.Environment(chosen, time_limit=_TIME_LIMIT, recompile_mjcf_every_episode=False)
    # The first reset draws the size of the brick's studs, from a range of one value, and compiles the model with it.
    # Done here, no later reset draws or compiles: an episode depends on its seed alone, and starts three times faster.
    environment.reset()

    # Arrays of MuJoCo are windows on memory that stays where it is, so they are fetched once.
    physics = environment.physics
    state, model = physics.data.ptr, physics.model.ptr
    positions, velocities, sensors = state.qpos, state.qvel, state.sensordata
    arm_joints, finger_joints = (np.array(physics.bind(part.joints).element_id) for part in (arm, hand))
    arm_positions, finger_positions = model.jnt_qposadr[arm_joints], model.jnt_qposadr[finger_joints]
    arm_velocities, finger_velocities = model.jnt_dofadr[arm_joints], model.jnt_dofadr[finger_joints]
    axes = model.jnt_axis[arm_joints]
    torque_sensors = np.array(physics.bind(arm.joint_torque_sensors).element_id)
    torques = model.sensor_adr[torque_sensors][:, None] + np.arange(3)
    pinch = int(physics.bind(hand.tool_center_point).element_id)
    target = int(physics.bind(load_module("dm_control.mjcf").get_attachment_frame(brick.mjcf_model)).element_id)
    places, frames, bodies = state.site_xpos, state.site_xmat, state.xpos
    brick_sensors = [
        int(physics.bind(brick.mjcf_model.find("sensor", name)).element_id)
        for name in ("angular_velocity", "linear_velocity", "orientation", "position")
    ]
    brick_places = np.concatenate([model.sensor_adr[one] + np.arange(model.sensor_dim[one]) for one in brick_sensors])

    def read() -> tuple[Float32[np.ndarray, "55"], float]:
        obs = np.empty(55, np.float32)
        angles = positions[arm_positions]
        obs[0:12:2] = np.sin(angles)
        obs[1:12:2] = np.cos(angles)
        # A sensor reads all three axes, a joint turns about one; the logarithm keeps collisions in bounds.
        torque = np.einsum("ij,ij->i", sensors[torques], axes)
        obs[12:18] = np.sign(torque) * np.log1p(np.abs(torque))
        obs[18:24] = velocities[arm_velocities]
        obs[24:27] = positions[finger_positions]
        obs[27:30] = velocities[finger_velocities]
        obs[30:33] = places[pinch]
        obs[33:42] = frames[pinch]
        obs[42:] = sensors[brick_places]
        distance = np.linalg.norm(places[pinch] - bodies[target])
        return obs, 1.0 if distance <= _RADIUS else bell(float((distance - _RADIUS) / _RADIUS))

    return Simulation(environment, environment.random_state, chosen.physics_steps_per_control_step, read)
