"""Value models of episodes: q_t(s, a), and ratios of marginals."""
