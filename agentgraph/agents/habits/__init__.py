"""Hints for names of other libraries that newcomers type: a table and its hooks."""
