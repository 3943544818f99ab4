"""Asserts outside of test files say what they compared, too."""

import pytest

pytest.register_assert_rewrite("comparison", "conversations", "passing")
