# /// script
# requires-python = ">=3.11"
# dependencies = ["torch==2.13.0", "d3rlpy==2.8.1", "numpy==2.4.6", "scikit-learn==1.9.1"]
# [tool.offpolicy-bench]
# name = "d3rlpy"
# kinds = ["episodes"]
# recipe = "DiscreteFQE with FQEConfig() and InitialStateValueEstimationEvaluator, as in its tutorial on off-policy evaluation; the target enters as a DiscreteBC policy fitted to its own actions; 2,000 gradient steps each, for want of time (the tutorial takes more). It values greedy actions, so stochastic targets are refused; no interval"
# ///
"""d3rlpy: fitted Q evaluation of a deterministic policy; states that are codes enter one-hot."""

import d3rlpy
import numpy as np
from d3rlpy.algos import DiscreteBCConfig
from d3rlpy.dataset import MDPDataset
from d3rlpy.logging import NoopAdapterFactory
from d3rlpy.metrics import InitialStateValueEstimationEvaluator
from d3rlpy.ope import DiscreteFQE, FQEConfig

STEPS = 2_000


def answer(log):
    if not np.isin(log.target, (0, 1)).all():
        return {"refused": "fitted Q evaluation values greedy actions: the target is stochastic"}
    state = log.state
    if state.ndim == 1:
        codes, place = np.unique(state, return_inverse=True)
        state = np.eye(len(codes), dtype=np.float32)[place]
    d3rlpy.seed(log.seed)
    ends = np.zeros(len(state), dtype=np.float32)
    ends[log.length.cumsum() - 1] = 1  # the horizon ends an episode, too
    quiet = {"logger_adapter": NoopAdapterFactory(), "show_progress": False}
    roles = {"terminals": ends, "action_space": d3rlpy.ActionSpace.DISCRETE, "action_size": log.target.shape[1]}
    chosen = log.target.argmax(axis=1)
    policy = DiscreteBCConfig().create()
    policy.fit(MDPDataset(state, chosen, log.reward, **roles), n_steps=STEPS, n_steps_per_epoch=STEPS, **quiet)
    dataset = MDPDataset(state, log.action, log.reward, **roles)
    fqe = DiscreteFQE(algo=policy, config=FQEConfig(gamma=float(log.discount)))
    fqe.fit(dataset, n_steps=STEPS, n_steps_per_epoch=STEPS, **quiet)
    value = InitialStateValueEstimationEvaluator()(fqe, dataset)
    agree = float((policy.predict(state) == chosen).mean())
    return {"estimate": value, "method": f"FQE, {STEPS} steps; the imitated policy agrees on {agree:.1%}"}
