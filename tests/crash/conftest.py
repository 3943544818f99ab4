"""Asserts outside of test files tell what they compared, too."""

import pytest

pytest.register_assert_rewrite("campaign", "leaving")
