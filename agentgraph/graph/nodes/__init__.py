"""What a node does when it runs, one file a kind."""
