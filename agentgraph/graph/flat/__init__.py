"""Graph agents with `flat=True`: the nodes of their graphs are nodes of the lane."""
