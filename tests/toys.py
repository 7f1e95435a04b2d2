"""Environments of Gymnasium for tests, under names that a process finds with tests/ on its path: gym/toys:Toy-v0."""

import os

import gymnasium
import numpy as np
from gymnasium import spaces

HORIZON = 20
LONG = 60


class Toy(gymnasium.Env):
    """A point that is pushed about; it earns more the nearer it is to (1, 0).

    ``ends``: the task is over once the point leaves a circle; ``own_mind``: the start is not what the seed says.
    """

    broken_at = None
    """Step of an environment's life, over all its episodes, that gives NaN; None where all is well."""

    def __init__(self, ends=False, own_mind=False, broken_at=None):
        # One more number to see where the process is told so: an environment that became another one.
        self.size = int(os.environ.get("TOY_SIZE", "3"))
        self.observation_space = spaces.Box(-np.inf, np.inf, (self.size,))
        self.action_space = spaces.Box(-1, 1, (2,))
        self.ends, self.own_mind, self.lived = ends, own_mind, 0
        if broken_at is not None:
            self.broken_at = broken_at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        generator = np.random.default_rng() if self.own_mind else self.np_random
        self.place, self.time = 0.1 * generator.normal(size=2), 0
        return self.look(), {}

    def step(self, action):
        self.place = self.place + 0.1 * action
        self.time += 1
        self.lived += 1
        reward = -float(np.hypot(*(self.place - [1, 0])))
        if self.lived == self.broken_at:
            self.place = self.place * np.nan
        return self.look(), reward, bool(self.ends and np.hypot(*self.place) > 0.3), False, {}

    def look(self):
        return np.array([*self.place, *[self.time / HORIZON] * (self.size - 2)], np.float32)


class Seen(Toy):
    """The toy with a picture of itself: grey, brighter with every step, and of an odd height."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(self, render_mode=None, **arguments):
        super().__init__(**arguments)
        self.render_mode = render_mode

    def render(self):
        return np.full((33, 48, 3), 40 + 3 * self.time, np.uint8)


class Pictured(Toy):
    """The toy from above, as the agent sees it: a light square on a background that gets darker with every step."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.observation_space = spaces.Box(0, 255, (64, 64, 3), np.uint8)

    def look(self):
        picture = np.full((64, 64, 3), (40, 60, 90 - 2 * self.time), np.uint8)
        row, column = np.clip(32 + 16 * self.place, 0, 59).astype(int)
        picture[row : row + 5, column : column + 5] = (250, 240, 200)
        return picture


gymnasium.register("Pictured-v0", entry_point=Pictured, max_episode_steps=HORIZON)
gymnasium.register("Seen-v0", entry_point=Seen, max_episode_steps=LONG)
gymnasium.register("SeenEnding-v0", entry_point=Seen, max_episode_steps=LONG, kwargs={"ends": True})
for name, limit, arguments in (
    ("Toy-v0", HORIZON, {}),
    ("Ending-v0", HORIZON, {"ends": True}),
    ("OwnMind-v0", HORIZON, {"own_mind": True}),
    ("Long-v0", LONG, {}),
    ("Breaking-v0", HORIZON, {"broken_at": 500}),
):
    gymnasium.register(name, entry_point=Toy, max_episode_steps=limit, kwargs=arguments)
