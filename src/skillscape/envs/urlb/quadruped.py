"""The quadruped: walk and run of the Control Suite, and the benchmark's stand and jump."""

import numpy as np
from jaxtyping import Float, Float32, Int

from skillscape.envs.urlb.control import ControlTask, linear_tolerance, load_module, sensor_indices, with_reward

_CONTROL_STEP, _TIME_LIMIT = 0.02, 20.0
# Bound, margin and value at the margin of the linear tolerance of a task's speed or height.
_MOTION = {"walk": (0.5, 0.5, 0.5), "run": (5.0, 5.0, 0.5), "jump": (1.0, 1.0, 0.5)}


def build(task: str) -> ControlTask:
    """The task "stand", "walk", "run" or "jump".

    The reward of stand is (1 + cosine)/2 of the torso's angle to the vertical; the others multiply it by a tolerance
    of the torso's forward speed, in its own frame, or for jump of the centre of mass's height.
    """
    quadruped = load_module("dm_control.suite.quadruped")
    control = load_module("dm_control.rl.control")
    common = load_module("dm_control.suite.common")
    # Contacts know no end of the floor; its size is only rendered.
    floor = _TIME_LIMIT * (5.0 if task == "run" else 0.5)
    physics = quadruped.Physics.from_xml_string(quadruped.make_model(floor_size=floor), common.ASSETS)
    speeds = {"walk": 0.5, "run": 5}
    task_class = quadruped.Move if task in speeds else with_reward(quadruped.Move, lambda: observe()[1])
    control_task = task_class(desired_speed=speeds.get(task, 0))
    environment = control.Environment(physics, control_task, time_limit=_TIME_LIMIT, control_timestep=_CONTROL_STEP)

    # MuJoCo's arrays are views of memory that does not move, so they are looked up once.
    state, model, types = physics.data.ptr, physics.model, quadruped.enums.mjtSensor
    frames, positions, velocities = state.xmat, state.qpos, state.qvel
    activations, sensors, bodies = state.act, state.sensordata, state.xpos
    torso = model.name2id("torso", "body")
    hinges = model.jnt_type == quadruped.enums.mjtJoint.mjJNT_HINGE
    hinge_positions, hinge_velocities = model.jnt_qposadr[hinges], model.jnt_dofadr[hinges]

    def readings(*sensor_types: int) -> Int[np.ndarray, " i"]:
        """Indices of the readings of all sensors of some types, in the model's order."""
        return sensor_indices(model, np.flatnonzero(np.isin(model.sensor_type, sensor_types)))

    speed = readings(types.mjSENS_VELOCIMETER)
    inertial = readings(types.mjSENS_GYRO, types.mjSENS_ACCELEROMETER)
    toes = readings(types.mjSENS_FORCE, types.mjSENS_TORQUE)
    motion = readings(types.mjSENS_SUBTREECOM)[2] if task == "jump" else speed[0]

    def observe() -> tuple[Float32[np.ndarray, "78"], float]:
        obs = np.empty(78, np.float32)
        upright = frames.item(torso, 8)
        obs[:16] = positions[hinge_positions]
        obs[16:32] = velocities[hinge_velocities]
        obs[32:44] = activations
        obs[44:47] = sensors[speed]
        obs[47] = upright
        obs[48:54] = sensors[inertial]
        obs[54:] = np.arcsinh(sensors[toes])
        reward = linear_tolerance(upright, 1.0, 2.0, 0.0)
        if task == "stand":
            return obs, reward
        return obs, reward * linear_tolerance(sensors.item(motion), *_MOTION[task])

    def position() -> Float[np.ndarray, "2"]:
        return np.array(bodies[torso, :2])

    return ControlTask(environment, control_task.random, round(_CONTROL_STEP / physics.timestep()), observe, position)
