"""The saved data of a thread: its checkpoints decoded, the story of its steps, its savers and locks."""
