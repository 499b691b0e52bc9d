"""What convlog costs, as ratios to a floor measured in the same run. `python -m benchmarks --help` lists the groups."""
