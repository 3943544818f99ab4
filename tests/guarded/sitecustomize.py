"""Guards a process that a test starts with this folder on its path."""

from guard import import_fewer_formats, stay_on_loopback

import_fewer_formats()
stay_on_loopback()
