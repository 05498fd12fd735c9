"""Studies of decisions: which policy to adopt, policies learned from a log, and routing among language models."""
