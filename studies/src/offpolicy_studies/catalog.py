"""The studies of this distribution; ``pyproject.toml`` announces each under its name.

Listing them imports none of them.
"""

from __future__ import annotations

from offpolicy_studies.study import Study

ads = Study(
    "ads",
    "Table 2 and Figure 2 of the paper on a simulated ad platform of its size (9 min on 2 cores; --quick: 1)",
    "offpolicy_studies.ads.study",
)
ads_map = Study(
    "ads-map", "where DML wins and where not: 32 kinds of ad platform (1 CPU hour)", "offpolicy_studies.ads.map"
)
cartpole = Study(
    "cartpole",
    "Table 1 of the paper: pixel CartPole, best on a GPU (--quick: two small data sets)",
    "offpolicy_studies.cartpole.study",
)
cartpole_letter = Study(
    "cartpole-letter",
    "Table 1 by the letter of the paper, with seven ways of knowing the behavior policy (9 min on an H200)",
    "offpolicy_studies.cartpole.letter",
)
cartpole_map = Study(
    "cartpole-map",
    "where DML wins and where not: policies, value models, lengths of training (11 min on an H200)",
    "offpolicy_studies.cartpole.map",
)
choice = Study("choice", "a published benchmark of estimator choice on classification sets", "offpolicy_studies.choice")
continuous = Study(
    "continuous",
    "actions that are numbers: kernels, bandwidths, and intervals for the policy itself",
    "offpolicy_studies.continuous.study",
)
corruptions = Study(
    "corruptions", "what the verdict says of logs with a known defect", "offpolicy_studies.trust.corruptions"
)
coverage = Study(
    "coverage",
    "bias, error, coverage and refusals over many worlds (20 min on 2 cores; --quick: less)",
    "offpolicy_studies.coverage.study",
)
delta_ope = Study(
    "delta-ope",
    "differences of learned policies: coverage, width and power beside the published estimator",
    "offpolicy_studies.decide.delta_ope",
)
episodes = Study(
    "episodes",
    "episodes in worlds with known values: lakes, taxis, cliffs, a clinic, a chain, CartPole (75 CPU min)",
    "offpolicy_studies.episodes.study",
)
false_alarms = Study(
    "false-alarms", "how often each check finds fault with a clean log", "offpolicy_studies.trust.false_alarms"
)
labels = Study(
    "labels",
    "rewards seen in part: a judge on all rows and labels on a few, conversions that come late",
    "offpolicy_studies.labels",
)
large_actions = Study(
    "large-actions",
    "many actions: coarse ratios against exact ones, published errors, coverage, the check",
    "offpolicy_studies.large_actions.study",
)
learned_policies = Study(
    "learned-policies",
    "policies judged by the rows they were learned from, and by others",
    "offpolicy_studies.trust.learned",
)
learning = Study(
    "learning",
    "policies learned from logs: honest and naive values, regret, and the paper's Figure 2",
    "offpolicy_studies.decide.learning",
)
obd = Study("obd", "the Open Bandit sample, each arm predicted from the other's log", "offpolicy_studies.obd")
outcomes = Study(
    "outcomes",
    "a truth battery of rewards seen in part, plans of labels, and LOPE's world",
    "offpolicy_studies.outcomes",
)
replay = Study(
    "replay",
    "algorithms that learn: progressive values, replay against online runs, a learning router",
    "offpolicy_studies.decide.replaying",
)
routing = Study(
    "routing",
    "routing among language models: coverage, error, advice, and logs without exploration",
    "offpolicy_studies.decide.routing",
)
selection = Study(
    "selection",
    "a published comparison of lower bounds and of which policy to adopt",
    "offpolicy_studies.decide.selection",
)
fitted = Study("fitted", "propensities that were not logged, under ten logging rules", "offpolicy_studies.trust.fitted")
seeds = Study("seeds", "whether looking for a seed that passes a gate pays", "offpolicy_studies.truth.seeds")
slates = Study(
    "slates",
    "rankings in worlds with a known interaction, under right and wrong assumptions",
    "offpolicy_studies.slates.study",
)
tabular = Study(
    "tabular", "small Markov decision processes with exact values (4 min)", "offpolicy_studies.tabular.study"
)
truth = Study("truth", "whether everything that is printed holds as often as it says", "offpolicy_studies.truth.study")
uci = Study("uci", "classification sets turned into bandits (6 CPU min)", "offpolicy_studies.uci")
upworthy = Study("upworthy", "sample-ratio mismatch in the Upworthy archive of A/B tests", "offpolicy_studies.upworthy")
