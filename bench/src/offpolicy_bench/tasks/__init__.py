"""The frozen tasks by name, in the order of the page."""

from __future__ import annotations

from offpolicy_bench.tasks import bandits, data, episodes, kinds, paired, refusals, sepsis

MODULES = (bandits, paired, data, kinds, episodes, sepsis, refusals)
TASKS = {task.name: task for module in MODULES for task in module.TASKS}
