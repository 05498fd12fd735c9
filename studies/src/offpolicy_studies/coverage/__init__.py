"""The coverage battery: many worlds with exact values, every estimator and interval."""
