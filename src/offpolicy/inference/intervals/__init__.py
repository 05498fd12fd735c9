"""Confidence intervals and what surrounds them: pure functions of numpy arrays.

Everything takes a `Sample` (units, sizes, frequencies) or (weights, rewards, count), and returns an
`Interval`. Nothing here knows about logs, policies or models.
"""

from offpolicy.inference.intervals.adaptive import Batches, Combined, past_scale, pooled, stabilized, summarize
from offpolicy.inference.intervals.binary import clopper_pearson
from offpolicy.inference.intervals.concentration import empirical_bernstein, hoeffding
from offpolicy.inference.intervals.evidence import Evidence, effective_units, lumpiness
from offpolicy.inference.intervals.likelihood import cautious_likelihood, empirical_likelihood
from offpolicy.inference.intervals.multiple import BestPolicy, adjusted_p_values, best_policy, simultaneous
from offpolicy.inference.intervals.power import TrialSize, trial_for_means
from offpolicy.inference.intervals.ratio import Pair, delta, fieller, log_scale
from offpolicy.inference.intervals.resample import acceleration, bca, bootstrap, replicates
from offpolicy.inference.intervals.rules import Choice, automatic, by_name, choose
from offpolicy.inference.intervals.sample import Interval, Sample
from offpolicy.inference.intervals.sequence import confidence_sequence
from offpolicy.inference.intervals.tails import effective_size, generalized_pareto, tail_index
from offpolicy.inference.intervals.wald import normal, student
from offpolicy.inference.intervals.weight_likelihood import cressie_read

__all__ = [
    "Batches", "BestPolicy", "Choice", "Combined", "Evidence", "Interval", "Pair", "Sample", "TrialSize",
    "acceleration", "adjusted_p_values", "automatic", "bca", "best_policy", "bootstrap", "by_name",
    "cautious_likelihood", "choose", "clopper_pearson", "confidence_sequence", "cressie_read", "delta",
    "effective_size", "effective_units", "empirical_bernstein", "empirical_likelihood", "fieller",
    "generalized_pareto", "hoeffding", "log_scale", "lumpiness", "normal", "past_scale", "pooled",
    "replicates", "simultaneous", "stabilized", "student", "summarize", "tail_index", "trial_for_means",
]  # fmt: skip
