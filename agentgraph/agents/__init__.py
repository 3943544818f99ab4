"""What users build: agents as frozen values, their builders, what functions give and get. Pure."""
