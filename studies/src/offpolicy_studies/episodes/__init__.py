"""Episodes in worlds with known values: tables, a clinic, a continuous chain and a cart with a pole."""
