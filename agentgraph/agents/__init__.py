"""Agents as frozen values, their builders, and the arguments and results of users' functions. Pure."""
