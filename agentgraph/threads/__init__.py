"""Runs on threads: run, resume, replay, and where threads are kept."""
