"""Weights in a store. Needs PyTorch and Deno."""
from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

import support
from test_processes import DENO


class WeightsTest(unittest.TestCase):
    @unittest.skipIf(importlib.util.find_spec("torch") is None, "there is no PyTorch")
    @unittest.skipIf(DENO is None, "there is no Deno")
    def test_with_pytorch(self) -> None:
        with tempfile.TemporaryDirectory(prefix="poolpass-") as folder:
            environment = {**support.ENVIRONMENT, "POOLPASS_WEIGHTS_FOLDER": folder}
            environment["PYTHONPATH"] = os.pathsep.join((support.PACKAGE, support.SOFTWARE, support.TESTS))
            done = subprocess.run(
                [sys.executable, "-m", "unittest", "weights_checks"], env=environment, cwd=support.TESTS,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=4 * support.TIMEOUT,
            )
        self.assertEqual(done.returncode, 0, done.stdout)
