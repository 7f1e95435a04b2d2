"""The Jaco arm: reaching for a brick in one of four corners."""

import logging
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32

from skillscape.envs.urlb.control import ControlTask, gaussian_tolerance, load_module, sensor_indices

_TIME_LIMIT = 10.0
_RADIUS = 0.05
_CORNERS = {
    "reach_top_left": (-0.09, 0.09),
    "reach_top_right": (0.09, 0.09),
    "reach_bottom_left": (-0.09, -0.09),
    "reach_bottom_right": (0.09, -0.09),
}


class _Workspace(NamedTuple):
    """Initial positions in dm_control's reaching task: of the brick, of the hand, of the arm's base."""

    target_bbox: Any
    tcp_bbox: Any
    arm_offset: tuple[float, float, float]


def _is_relevant(record: logging.LogRecord) -> bool:
    """Hides the message that dm_control's inverse kinematics log at every retry."""
    return not record.getMessage().startswith("Failed to converge after")


def build(task: str) -> ControlTask:
    """The task "reach_top_left", "reach_top_right", "reach_bottom_left" or "reach_bottom_right".

    The reward is 1 while the pinch site between the fingers is within 5 cm of the brick, and beyond that a Gaussian
    with value 0.1 at 10 cm. The task is dm_control's own, with a fixed corner and a random orientation of the brick.
    """
    composer = load_module("dm_control.composer")
    logging.getLogger("absl").addFilter(_is_relevant)
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
    control_task = reach.Reach(
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
    environment = composer.Environment(control_task, time_limit=_TIME_LIMIT, recompile_mjcf_every_episode=False)
    # The first reset samples the size of the brick's studs, from a range of one value, and compiles the model with it.
    # Afterwards no reset does: an episode depends on its seed alone, and starts three times faster.
    environment.reset()

    # MuJoCo's arrays are views of memory that does not move, so they are looked up once.
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
    sites, frames, bodies = state.site_xpos, state.site_xmat, state.xpos
    names = ("angular_velocity", "linear_velocity", "orientation", "position")
    brick_sensors = [int(physics.bind(brick.mjcf_model.find("sensor", name)).element_id) for name in names]
    brick_readings = sensor_indices(model, brick_sensors)

    def observe() -> tuple[Float32[np.ndarray, "55"], float]:
        obs = np.empty(55, np.float32)
        angles = positions[arm_positions]
        obs[0:12:2] = np.sin(angles)
        obs[1:12:2] = np.cos(angles)
        # A sensor measures all three axes, a joint turns about one; the logarithm bounds the peaks of collisions.
        torque = np.einsum("ij,ij->i", sensors[torques], axes)
        obs[12:18] = np.sign(torque) * np.log1p(np.abs(torque))
        obs[18:24] = velocities[arm_velocities]
        obs[24:27] = positions[finger_positions]
        obs[27:30] = velocities[finger_velocities]
        obs[30:33] = sites[pinch]
        obs[33:42] = frames[pinch]
        obs[42:] = sensors[brick_readings]
        distance = np.linalg.norm(sites[pinch] - bodies[target])
        return obs, 1.0 if distance <= _RADIUS else gaussian_tolerance(float((distance - _RADIUS) / _RADIUS))

    return ControlTask(environment, environment.random_state, control_task.physics_steps_per_control_step, observe)
