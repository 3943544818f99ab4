"""Guards a process that a test starts with this folder on its path."""

from guard import stay_on_loopback

stay_on_loopback()
