"""The quadruped: walk and run of the Control Suite, and the benchmark's stand and jump."""

from typing import Any

import numpy as np
from jaxtyping import Float32

from skillscape.envs.urlb.control import Simulation, load_module, rising

_CONTROL_STEP, _TIME_LIMIT = 0.02, 20.0
# What grows with the task's motion: the target, how far below it the slope has come down to what value.
_SLOPES = {"walk": (0.5, 0.5, 0.5), "run": (5.0, 5.0, 0.5), "jump": (1.0, 1.0, 0.5)}


def build(task: str) -> Simulation:
    """The simulation of "stand", "walk", "run" or "jump".

    Being upright is worth (1 + cosine)/2; the others multiply that by a slope in the forward speed of the torso, in its
    own frame, or for jump in the height of the centre of mass.
    """
    quadruped = load_module("dm_control.suite.quadruped")
    control = load_module("dm_control.rl.control")
    common = load_module("dm_control.suite.common")
    # The floor is endless for contacts; its size is what one sees of it.
    floor = _TIME_LIMIT * (5.0 if task == "run" else 0.5)
    physics = quadruped.Physics.from_xml_string(quadruped.make_model(floor_size=floor), common.ASSETS)

    class Posture(quadruped.Move):  # type: ignore[name-defined]
        """The quadruped's task with the reward of standing or of jumping."""

        def get_reward(self, physics: Any) -> float:  # noqa: ANN401, ARG002  (its physics is the one beside it)
            """Worth of the present state, in [0, 1]."""
            return read()[1]

    speeds = {"walk": 0.5, "run": 5}
    chosen = quadruped.Move(desired_speed=speeds[task]) if task in speeds else Posture(desired_speed=0)
    environment = control.Environment(physics, chosen, time_limit=_TIME_LIMIT, control_timestep=_CONTROL_STEP)

    # Arrays of MuJoCo are windows on memory that stays where it is, so they are fetched once.
    state, model, kinds = physics.data.ptr, physics.model, quadruped.enums.mjtSensor
    frames, positions, velocities = state.xmat, state.qpos, state.qvel
    activations, sensors = state.act, state.sensordata
    torso = model.name2id("torso", "body")
    hinges = model.jnt_type == quadruped.enums.mjtJoint.mjJNT_HINGE
    hinge_positions, hinge_velocities = model.jnt_qposadr[hinges], model.jnt_dofadr[hinges]

    def places(*chosen_kinds: int) -> np.ndarray:
        """Where the readings of all sensors of some kinds are, in the model's order."""
        found = np.flatnonzero(np.isin(model.sensor_type, chosen_kinds))
        return np.concatenate([model.sensor_adr[one] + np.arange(model.sensor_dim[one]) for one in found])

    speed = places(kinds.mjSENS_VELOCIMETER)
    inertial = places(kinds.mjSENS_GYRO, kinds.mjSENS_ACCELEROMETER)
    toes = places(kinds.mjSENS_FORCE, kinds.mjSENS_TORQUE)
    motion = places(kinds.mjSENS_SUBTREECOM)[2] if task == "jump" else speed[0]

    def read() -> tuple[Float32[np.ndarray, "78"], float]:
        obs = np.empty(78, np.float32)
        upright = frames.item(torso, 8)
        obs[:16] = positions[hinge_positions]
        obs[16:32] = velocities[hinge_velocities]
        obs[32:44] = activations
        obs[44:47] = sensors[speed]
        obs[47] = upright
        obs[48:54] = sensors[inertial]
        obs[54:] = np.arcsinh(sensors[toes])
        reward = rising(upright, 1.0, 2.0, 0.0)
        if task == "stand":
            return obs, reward
        return obs, reward * rising(sensors.item(motion), *_SLOPES[task])

    return Simulation(environment, chosen.random, round(_CONTROL_STEP / physics.timestep()), read)
