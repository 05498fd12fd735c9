"""The frozen tasks by name, in the order of the page."""

from __future__ import annotations

from offpolicy_bench.tasks import bandits, data, episodes, kinds, refusals, sepsis

TASKS = {task.name: task for module in (bandits, data, kinds, episodes, sepsis, refusals) for task in module.TASKS}
