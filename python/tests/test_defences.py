"""The table of defences: it names each that TypeScript has, and only what exists."""
from __future__ import annotations

import glob
import os
import re
import unittest

import support

LIMITS = "tests/sharing/protocol/limits_test.ts"
# A test's declaration, with the name or the beginning of it.
DECLARATION = re.compile(r'(?:[a-zA-Z]*[tT]est\(\s*|const name = )(?:"([^"]+)"|`([^`]+)`)')


def read(*path: str) -> str:
    with open(os.path.join(support.ROOT, *path), encoding="utf-8") as file:
        return file.read()


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


class DefencesTest(unittest.TestCase):
    def setUp(self) -> None:
        text = read("python", "tests", "defences.md")
        self.items = [plain(each.partition("\n\n")[0]) for each in text.split("\n- ")[1:]]
        self.table = plain(text)

    def assert_named(self, names: list[str]) -> None:
        self.assertGreater(len(names), 10)
        self.assertEqual([each for each in names if plain(each).strip() not in self.table], [])

    def test_each_limit_of_typescript_is_named(self) -> None:
        # What follows the name of a file, in the list and in the rows that have the same constants for several files.
        found = re.findall(r'"[a-zA-Z/_]+\.(?:ts|c)",\s*"([^"]+)"|`src/sharing/\$\{file\}`, "([^"]+)"', read(LIMITS))
        self.assert_named([(one or other).replace("\\n", "") for one, other in found])

    def test_each_attack_of_typescript_is_named(self) -> None:
        names = []
        for path in glob.glob(os.path.join(support.ATTACKS, "*_test.ts")):
            found = DECLARATION.findall(read(path))
            self.assertGreater(len(found), 0, path)
            names += [one or other for one, other in found]
        self.assert_named(names)

    def test_each_source_of_typescript_is_named(self) -> None:
        folder = os.path.join(support.ROOT, "src", "sharing")
        sources = glob.glob(os.path.join(folder, "**", "*.ts"), recursive=True)
        paths = [os.path.relpath(each, folder) for each in sources]
        self.assertGreater(len(paths), 50)
        left = [
            path for path in paths
            if f"`{path}`" not in self.table and f"`{os.path.dirname(path)}/`" not in self.table
        ]
        self.assertEqual(left, [])

    def test_what_is_named_exists(self) -> None:
        # Those of `src/sharing/`.
        for path in re.findall(r"`((?!src/)[a-z_]+/[a-z_/]*(?:\.ts)?)`", self.table.partition("## Sources")[2]):
            self.assertTrue(os.path.exists(os.path.join(support.ROOT, "src", "sharing", path)), path)
        count = 0
        for file, name in references(self.items):
            folder = "python/tests" if file.startswith("test_") else "python"
            wanted = f"def {name}(" if name.startswith("test_") else name
            self.assertTrue(wanted in plain(read(folder, file)), f"{file} has no {name}")
            count += 1
        self.assertGreater(count, 80)


def references(items: list[str]) -> list[tuple[str, str]]:
    """What the table says is in each file of the package: the names that follow the file's, up to the next one."""
    found = []
    for item in items:
        file = ""
        for name in re.findall(r"`([^`]+)`", item):
            if re.fullmatch(r"[a-z_/]+\.py", name):
                file = name
            elif file:
                found.append((file, name))
    return found


if __name__ == "__main__":
    unittest.main()
