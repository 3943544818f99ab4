"""What a thread has saved: its checkpoints decoded, the story that they tell, its savers and locks."""
