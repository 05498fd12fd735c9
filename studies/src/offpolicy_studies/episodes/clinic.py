"""A sepsis-like clinic with 144 states and four treatments, written for this study.

A patient has a severity (1 to 6), a blood pressure (low, normal, high), an oxygen level (low, normal), and may be on
antibiotics and on vasopressors: 6 × 3 × 2 × 2 × 2 states. An action says which of the two drugs are given for the next
step. Antibiotics lower the severity; vasopressors raise the blood pressure, normal or not; sudden withdrawal lowers
it. Low pressure or oxygen worsens the severity. Severity above 6 is death (reward −1), below 1 discharge (+1);
otherwise an episode goes on for up to 20 steps.
"""

from __future__ import annotations

import itertools

import numpy as np

from offpolicy_studies.episodes.outcomes import World

SEVERITIES, PRESSURES, OXYGENS = 6, 3, 2
STEPS = 20


def number(severity: int, pressure: int, oxygen: int, drug: int, support: int) -> int:
    """Code of a state; severity from 0."""
    return (((severity * PRESSURES + pressure) * OXYGENS + oxygen) * 2 + drug) * 2 + support


def clinic() -> World:
    """The world; patients arrive with a severity of 3 or 4, untreated."""
    n, k = SEVERITIES * PRESSURES * OXYGENS * 4, 4
    most = 3 * 3 * 2
    chance, reward = np.zeros((n, k, most)), np.zeros((n, k, most))
    to, ends = np.zeros((n, k, most), dtype=np.int64), np.zeros((n, k, most), dtype=bool)
    ranges = (range(SEVERITIES), range(PRESSURES), range(OXYGENS), range(2), range(2))
    for severity, pressure, oxygen, drug, support in itertools.product(*ranges):
        s = number(severity, pressure, oxygen, drug, support)
        for action in range(k):
            give, press = action & 1, action >> 1
            worse = 0.15 + 0.2 * (pressure == 0) + 0.15 * (oxygen == 0) - 0.05 * give
            better = 0.12 + 0.35 * give - 0.05 * (pressure == 2)
            up = 0.1 + 0.5 * press
            down = 0.2 - 0.15 * press + 0.3 * (support and not press)
            breathe = 0.75 - 0.08 * severity
            j = 0
            for shift, p in ((1, worse), (-1, better), (0, 1 - worse - better)):
                for push, p_pressure in ((1, up), (-1, down), (0, 1 - up - down)):
                    for air, p_air in ((1, breathe), (0, 1 - breathe)):
                        after = severity + shift
                        over = after < 0 or after >= SEVERITIES
                        kept = min(max(after, 0), SEVERITIES - 1)
                        level = min(max(pressure + push, 0), PRESSURES - 1)
                        chance[s, action, j] = p * p_pressure * p_air
                        reward[s, action, j] = (1.0 if after < 0 else -1.0) if over else 0.0
                        to[s, action, j] = number(kept, level, air, give, press)
                        ends[s, action, j] = over
                        j += 1
    initial = np.zeros(n)
    for severity, pressure, oxygen in itertools.product((2, 3), range(PRESSURES), range(OXYGENS)):
        initial[number(severity, pressure, oxygen, 0, 0)] = 1.0
    return World(initial / initial.sum(), chance, reward, to, ends, STEPS)
