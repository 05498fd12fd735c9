"""Confidence intervals and what surrounds them: pure functions of numpy arrays.

Everything takes a `Sample` (units, sizes, frequencies) or (weights, rewards, count), and returns an
`Interval`. Nothing here knows about logs, policies or models.
"""

from offpolicy.inference.intervals.adaptive import Batches, Combined, past_scale, pooled, stabilized, summarize
from offpolicy.inference.intervals.betting import confidence_sequence
from offpolicy.inference.intervals.evidence import Evidence, effective_units, lumpiness
from offpolicy.inference.intervals.exact import clopper_pearson, empirical_bernstein, hoeffding
from offpolicy.inference.intervals.likelihood import cautious_likelihood, empirical_likelihood
from offpolicy.inference.intervals.resample import acceleration, bca, bootstrap, replicates
from offpolicy.inference.intervals.rules import Choice, automatic, by_name, choose
from offpolicy.inference.intervals.sample import Interval, Sample
from offpolicy.inference.intervals.tails import effective_size, generalized_pareto, tail_index
from offpolicy.inference.intervals.wald import (
    Pair,
    TrialSize,
    delta,
    fieller,
    log_scale,
    normal,
    student,
    trial_for_means,
)
from offpolicy.inference.intervals.weight_likelihood import cressie_read

__all__ = [
    "Batches", "Choice", "Combined", "Evidence", "Interval", "Pair", "Sample", "TrialSize",
    "acceleration", "automatic", "bca", "bootstrap", "by_name",
    "cautious_likelihood", "choose", "clopper_pearson", "confidence_sequence", "cressie_read", "delta",
    "effective_size", "effective_units", "empirical_bernstein", "empirical_likelihood", "fieller",
    "generalized_pareto", "hoeffding", "log_scale", "lumpiness", "normal", "past_scale", "pooled",
    "replicates", "stabilized", "student", "summarize", "tail_index", "trial_for_means",
]  # fmt: skip
