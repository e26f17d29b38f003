"""Puts the real output of `make demo` into the README; `--check` says whether it is there."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- demo -->\n", "<!-- /demo -->\n"


def demo_output() -> str:
    """What the demo prints, with the folder's own `wain`."""
    wain = Path(sys.executable).parent / "wain"
    done = subprocess.run(
        ["sh", "examples/demo.sh"],
        cwd=ROOT,
        env={**os.environ, "WAIN": str(wain)},
        check=True,
        capture_output=True,
        text=True,
    )
    return f"```\n{done.stdout}```\n"


def main() -> None:
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    made = f"{before}{BEGIN}{demo_output()}{END}{rest.split(END)[1]}"
    if "--check" not in sys.argv:
        readme.write_text(made, encoding="utf-8")
    elif made != text:
        sys.exit(
            "README.md does not show today's demo; run: .venv/bin/python scripts/update_readme.py"
        )


main()
