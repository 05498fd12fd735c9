"""What a sceptic would check before believing the number, each with a threshold, a sentence and a remedy."""

from offpolicy.trust.diagnose import diagnose
from offpolicy.trust.finding import Diagnostics, Finding, Findings
from offpolicy.trust.log_side import check_log
from offpolicy.trust.own import Check, Moment, forget, register
from offpolicy.trust.propensities import RatioTest, sample_ratio
from offpolicy.trust.thresholds import THRESHOLDS, Threshold

__all__ = [
    "THRESHOLDS", "Check", "Diagnostics", "Finding", "Findings", "Moment", "RatioTest", "Threshold",
    "check_log", "diagnose", "forget", "register", "sample_ratio",
]  # fmt: skip
