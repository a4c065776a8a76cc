"""Processes that are killed at random points, with a store of Deno: see kills_gpu_check.py. Needs Deno."""
from __future__ import annotations

import os
import subprocess
import sys
import unittest

import support
from test_processes import DENO

IS_LONG = os.environ.get("POOLPASS_LONG") == "1"


class KillsTest(unittest.TestCase):
    @unittest.skipIf(DENO is None, "there is no Deno")
    def test_random_points(self) -> None:
        done = subprocess.run(
            [sys.executable, "kills_gpu_check.py", "--size", "1", "--kills", "30" if IS_LONG else "3"],
            env={**support.ENVIRONMENT, "POOLPASS_DENO": str(DENO)}, cwd=support.TESTS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=(20 if IS_LONG else 4) * support.TIMEOUT,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("3 passed, 0 failed", done.stdout)
