"""What a tree checks and reads at its agents: the rules of each kind, and of shared options."""
