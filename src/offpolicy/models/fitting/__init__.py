"""Where models are fitted: once per split, for every kind of log, and kept by what they were trained on."""
