"""Small fits use one thread, and whatever was set before is there again afterwards."""

import threading

import numpy as np
import scipy.linalg  # noqa: F401  # so that its BLAS is loaded
from threadpoolctl import threadpool_info, threadpool_limits

import offpolicy as op
from offpolicy._threads import SMALL_FIT, few_threads


def threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_small_work_has_one_thread_and_large_work_its_own():
    with threadpool_limits(2, user_api="blas"):
        with few_threads(SMALL_FIT):
            assert threads() == {1}
            with few_threads(10):
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == {2}
        with few_threads(SMALL_FIT + 1):
            assert threads() == {2}


def test_threads_that_overlap_restore_what_was_there():
    inside, leave = threading.Event(), threading.Event()

    def work():
        with few_threads(1):
            inside.set()
            leave.wait()

    with threadpool_limits(2, user_api="blas"):
        other = threading.Thread(target=work)
        with few_threads(1):
            other.start()
            inside.wait()
            assert threads() == {1}
        assert threads() == {2}
        leave.set()
        other.join()
        assert threads() == {2}


def test_a_learner_is_fitted_inside():
    seen = []

    class Spy:
        def fit_reward(self, data, seed):
            seen.append(threads())
            return self

        def predict(self, X, codes):
            seen.append(threads())
            return np.zeros(len(codes))

    rng = np.random.default_rng(0)
    log = op.BanditLog.from_arrays(rng.normal(size=(50, 1)), rng.integers(2, size=50), rng.random(50), np.full(50, 0.5))
    with threadpool_limits(2, user_api="blas"):
        op.evaluate(log, "uniform", estimators=["DML"], reward_model=Spy())
    assert seen
    assert all(each == {1} for each in seen)
