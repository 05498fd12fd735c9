"""Many actions: the published comparison of IPS and MIPS, and what intervals and checks of coarse ratios are worth."""
