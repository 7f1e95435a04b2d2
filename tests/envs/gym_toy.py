"""An environment of Gymnasium that tests can shape and break."""

import gymnasium
import numpy as np
from gymnasium import spaces

LOW, HIGH = np.array([-2.0, 0.1], np.float32), np.array([2.0, 0.7], np.float32)


class Toy(gymnasium.Env):
    """Counts its steps, remembers the actions it was given, and ends after ``end`` steps."""

    def __init__(self, observation_space=None, action_space=None, end=None, observe=None):
        self.observation_space = observation_space or spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = action_space or spaces.Box(LOW, HIGH)
        self.end, self.observe, self.actions, self.closed = end, observe, [], False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.actions = []
        self.start = self.np_random.normal()
        return self.observation(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.actions.append(action)
        return self.observation(), np.float32(0.5), np.bool_(len(self.actions) == self.end), False, {}

    def observation(self):
        state = np.array([self.start, len(self.actions)])
        return self.observe(state) if self.observe else state

    def close(self):
        self.closed = True
