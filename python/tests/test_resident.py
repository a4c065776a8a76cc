"""Models of transformers in a store. Needs PyTorch, transformers and Deno."""
from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

import support
from test_processes import DENO

MISSING = [each for each in ("torch", "transformers", "accelerate") if importlib.util.find_spec(each) is None]


class ResidentTest(unittest.TestCase):
    @unittest.skipIf(bool(MISSING), f"there is no {' and no '.join(MISSING)}")
    @unittest.skipIf(DENO is None, "there is no Deno")
    def test_with_transformers(self) -> None:
        with tempfile.TemporaryDirectory(prefix="poolpass-") as folder:
            environment = {**support.ENVIRONMENT, "POOLPASS_WEIGHTS_FOLDER": folder, "HF_HUB_OFFLINE": "1"}
            environment["PYTHONPATH"] = os.pathsep.join((support.PACKAGE, support.SOFTWARE, support.TESTS))
            done = subprocess.run(
                [sys.executable, "-m", "unittest", "resident_checks"], env=environment, cwd=support.TESTS,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=8 * support.TIMEOUT,
            )
        self.assertEqual(done.returncode, 0, done.stdout)
