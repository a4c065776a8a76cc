"""Models of transformers in a store. Needs PyTorch, transformers and Deno."""
from __future__ import annotations

import importlib.util
import unittest

import support
from test_processes import DENO

MISSING = [each for each in ("torch", "transformers", "accelerate") if importlib.util.find_spec(each) is None]


class ResidentTest(unittest.TestCase):
    @unittest.skipIf(bool(MISSING), f"there is no {' and no '.join(MISSING)}")
    @unittest.skipIf(DENO is None, "there is no Deno")
    def test_with_transformers(self) -> None:
        support.run_checks("resident_checks", 8 * support.TIMEOUT)
