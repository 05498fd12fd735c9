"""From estimates to decisions: policies learned from a log and valued honestly, and which policy to adopt."""
