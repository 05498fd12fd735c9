"""What pages show and the code makes (make tables): the table of checks."""

import math
from pathlib import Path

from offpolicy.trust import THRESHOLDS

HERE = Path(__file__).parent
WHAT = {
    "mean_weight": "distance of the mean weight from 1, beyond its noise",
    "mean_weight_z": "the same in standard errors",
    "mean_weight_by_action": "largest z of the mean weight of an action",
    "mean_weight_by_batch": "largest z of the mean weight of a batch",
    "effective_sample_size": "Kish's effective number of units",
    "largest_weight": "largest weight (no limit of its own)",
    "largest_weight_share": "share of all weight on one unit",
    "top_share": "share of the weight on the heaviest 1% of the weighted units",
    "top_unit_share": "share of the weighted rewards on one unit; of two-valued ones as the whole log has them",
    "pareto_k": "Pareto index of the weights' tail",
    "unsupported_mass": "share of the target's choices that the log never makes",
    "cell_leaning": "p-value: do actions that the logging policy prefers earn as much as others of their cell",
    "coarse_ratio": "p-value: paired test between estimates with ratios of cells and of actions",
    "reward_model_r2": "out-of-fold R² of the reward model",
    "reward_model_calibration": "z of its calibration",
    "reward_model_by_batch": "largest z of a batch whose rewards follow their predictions less than those of others do",
    "behavior_log_loss": "z of the log-loss of π_b above that of plain shares",
    "floored": "share of the weighted rows whose fitted propensity was 0 and was replaced by 1/(n + K)",
    "efficiency_ratio": "variance of the doubly robust score over the estimated efficiency bound",
    "horizon": "share of an episode's steps that products of ratios support",
    "beyond_log": "share of the target's episodes that reach the last step of which the log can tell",
    "left_out_slots": "p-value: rewards of slates against the items of slots that `interaction=` leaves out",
    "interaction_bias": "standard errors between weights of the assumed interaction and of a wider one",
    "marginal_ratios": "standard errors between DRL and its reference (DML, ratios steps back, or the ratios alone)",
    "unseen_pairs": "share of the target's probability on state-action pairs that no training fold saw",
    "value_model_skill": "share of the variance of R + γ v' inside the steps that q explains, at least −1",
    "sample_ratio_mismatch": "p-value: logged actions against their propensities",
    "balance": "p-value: context columns by action, weighted by 1/propensity, against all rows",
    "leaks": "1 where a context column determines the reward",
    "identifying_columns": "levels of the context's text column that has most of them, over the rows",
    "near_duplicates": "share of rows that copy another one but for one context column",
    "rounded_propensities": "relative error that rounding may have put into a weight",
    "propensity_calibration": "z of logged propensities against the actions taken",
    "deterministic_logging": "share of rows with propensity 1",
    "unlogged_actions": "number of listed actions never logged",
    "label_balance": "p-value of the largest difference between rows with and without a reward",
    "effective_labels": "labels that count, discounted for unequal weights",
    "proxy_skill": "share of the labels' variance that the proxies explain besides context and action",
    "proxy_preference": "z-score of the largest difference between actions at the same proxies",
    "history_overlap": "share of rows unlike any row of the older log",
    "surrogacy": "p-value of the largest difference between rewards and what the older log foretells, by action",
    "rare_rewards": "units whose reward is not the usual one",
    "duplicates": "share of rows that copy another one, beyond the coincidences that propensities make likely",
    "reward_maturity": "mean reward of the latest tenth of the batches over that before, where it was never as low",
    "reward_tail": "Pareto index of the tail of rewards other than 0 and 1, around model or mean, whichever is lighter",
    "batch_drift": "p-value: the estimate over time",
    "break_at_policy": "a corner or a jump of the mean reward at a policy's number, in standard errors",
    "learned_from_log": "standard errors by which the policy does better here than a copy predicted without these rows",
    "smoothing_bias": "bias of the window around a policy's number, in standard errors, where it is more than noise",
    "estimator_disagreement": "p-value: paired test between the estimator that speaks and others that should agree",
    "clipping_sensitivity": "standard errors that clipping the top 1% of weights moves the estimate by",
    "confounding": "factor Γ by which π_b may be wrong before the difference to the log could vanish",
}


def limit(value: float, side: str) -> str:
    """A limit, or a dash where there is none."""
    return "–" if math.isinf(value) else f"{'>' if side == 'above' else '<'} {value:g}"


def rate(false_alarms: float | None) -> str:
    """Chance of a caution on a clean log; a limit is no test and has none."""
    return "a limit" if false_alarms is None else f"≤ {100 * false_alarms:g}%"


def diagnostics() -> str:
    """The table of all checks."""
    rows = [
        "| check | value | note | caution | alarm | decides | false alarms | what to do |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, t in THRESHOLDS.items():
        rows.append(
            f"| `{name}` | {WHAT[name]} | {limit(t.caution, t.side) if t.advice else '–'} | "
            f"{'–' if t.advice else limit(t.caution, t.side)} | {limit(t.alarm, t.side)} | "
            f"{'yes' if t.decides else ''} | {rate(t.false_alarms)} | {t.remedy} |"
        )
    return "\n".join(rows)


def main() -> None:
    page = HERE / "reference" / "diagnostics.md"
    head, _, _ = page.read_text(encoding="utf-8").partition("| check |")
    page.write_text(head + diagnostics() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
