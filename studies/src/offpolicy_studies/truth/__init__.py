"""The truth battery: everything that is printed about a policy, asked in worlds where the answer is known."""
