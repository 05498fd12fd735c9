"""The only place that fits models."""
