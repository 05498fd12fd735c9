"""From scores to an estimate: mean, standard error, intervals, comparisons."""
