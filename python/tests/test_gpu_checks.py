"""Runs the scripts that check the package on a GPU on the software device, with a store of Deno. Needs Deno; and, but for
processes that are killed, PyTorch and POOLPASS_LONG=1."""
from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import unittest

import support
from test_processes import DENO

IS_LONG = os.environ.get("POOLPASS_LONG") == "1"
LACKS_TORCH = importlib.util.find_spec("torch") is None
NEEDS_TORCH = unittest.skipIf(LACKS_TORCH or not IS_LONG, "there is no torch, or no POOLPASS_LONG=1")


@unittest.skipIf(DENO is None, "there is no Deno")
class GpuChecksTest(unittest.TestCase):
    def test_kills(self) -> None:
        kills = "30" if IS_LONG else "3"
        self.run_script("kills", 3, "--size", "1", "--kills", kills, "loaders", "movers", "ranks")

    @NEEDS_TORCH
    def test_writes(self) -> None:
        self.run_script("writes", 5, "--size", "1")

    @NEEDS_TORCH
    def test_traffic(self) -> None:
        self.run_script("traffic", 4, "--size", "3", "--cycles", "50")

    @NEEDS_TORCH
    def test_ranks(self) -> None:
        self.run_script("ranks", 3, "--size", "2")

    def run_script(self, name: str, count: int, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, f"{name}_gpu_check.py", *arguments],
            env={**support.ENVIRONMENT, "POOLPASS_DENO": str(DENO)}, cwd=support.TESTS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=(20 if IS_LONG else 4) * support.TIMEOUT,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"{count} passed, 0 failed", done.stdout)
