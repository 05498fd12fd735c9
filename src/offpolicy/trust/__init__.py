"""What a sceptic would check before believing the number, each with a threshold, a sentence and a remedy."""

from offpolicy.trust.check import CHECKS, Check, Moment, Threshold, Topic, forget, register
from offpolicy.trust.diagnose import check_log, diagnose
from offpolicy.trust.finding import Diagnostics, Finding, Findings
from offpolicy.trust.mismatch import RatioTest, sample_ratio

__all__ = [
    "CHECKS", "Check", "Diagnostics", "Finding", "Findings", "Moment", "RatioTest", "Threshold", "Topic",
    "check_log", "diagnose", "forget", "register", "sample_ratio",
]  # fmt: skip
