"""The parts of an evaluation that a verdict looks at."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

from offpolicy.logs.kinds import kind_called, space_of
from offpolicy.trust.finding import Findings, judged

sys.path.insert(0, str(Path(__file__).parent))

from trust_gates import NOISE, UNITS, Ev


class Judged(Ev):
    """What a verdict looks at as well: findings, the log's own columns, what propensities rest on."""

    def __init__(self, values, *findings, minimize=False, products=0.0, looks_back=0.0, episodes=False, **options):
        settings = {k: options.pop(k) for k in ("randomized", "gamma") if k in options}
        super().__init__(values, **options)
        self.settings.update(settings)
        self.minimize, self.diagnostics = minimize, dict.fromkeys(values, Findings(list(findings)))
        reward = 1.0 + 0.5 * NOISE
        self.problem = SimpleNamespace(
            weights_known=options.get("known", True), units=UNITS, earning="r",
            blend=lambda name, chosen: (products, looks_back),
            cells=None, behavior_given=options.get("given", False),
            table=SimpleNamespace(columns={"r": reward}),
            log=SimpleNamespace(
                unit_kind=kind_called("bandit"), space=space_of(None), propensity=None,
                names=SimpleNamespace(cluster="user_id"),
                layout=SimpleNamespace(is_single=not episodes), is_weighted=False,
            ),
        )  # fmt: skip


CALM = judged("duplicates", 0.0, "no copies.")
COPIES = judged("duplicates", 0.005, "half a percent are copies.")
MANY = judged("duplicates", 0.5, "half are copies.")
FEW = judged("effective_sample_size", 5.0, "five units are left.")
SHARE = judged("largest_weight_share", 0.4, "a single unit carries 40%.")
ADVICE = judged("top_share", 0.5, "half on the heaviest.")
