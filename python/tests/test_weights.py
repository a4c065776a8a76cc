"""Weights in a store. Needs PyTorch and Deno."""
from __future__ import annotations

import importlib.util
import unittest

import support
from test_processes import DENO


class WeightsTest(unittest.TestCase):
    @unittest.skipIf(importlib.util.find_spec("torch") is None, "there is no PyTorch")
    @unittest.skipIf(DENO is None, "there is no Deno")
    def test_with_pytorch(self) -> None:
        support.run_checks("weights_checks", 4 * support.TIMEOUT)
