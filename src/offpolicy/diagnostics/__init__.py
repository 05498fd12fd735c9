"""What a sceptic would check before believing the number, each with a threshold, a sentence and a remedy."""

from offpolicy.diagnostics.diagnose import diagnose
from offpolicy.diagnostics.finding import Diagnostics, Finding, Findings
from offpolicy.diagnostics.log_side import check_log
from offpolicy.diagnostics.propensities import RatioTest, sample_ratio
from offpolicy.diagnostics.thresholds import THRESHOLDS, Threshold

__all__ = [
    "THRESHOLDS", "Diagnostics", "Finding", "Findings", "RatioTest", "Threshold", "check_log",
    "diagnose", "sample_ratio",
]  # fmt: skip
