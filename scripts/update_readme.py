"""Puts the real output of the demos into the README; `--check` says whether it is there."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
WAIN = Path(sys.executable).parent / "wain"
DEMOS = {
    "demo": [str(WAIN), "simulate", "examples/sale-day/scenario.yaml"],
    "demo-plan": ["sh", "examples/demo-plan.sh"],
}


def output_of(command: list[str]) -> str:
    """What the demo prints, with the folder's own `wain`."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "WAIN": str(WAIN)},
        check=True,
        capture_output=True,
        text=True,
    )
    return f"```\n{done.stdout}```\n"


def with_demo(text: str, name: str) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before, rest = text.split(begin)
    return f"{before}{begin}{output_of(DEMOS[name])}{end}{rest.split(end)[1]}"


def main() -> None:
    readme = ROOT / "README.md"
    text = made = readme.read_text(encoding="utf-8")
    for name in DEMOS:
        made = with_demo(made, name)
    if "--check" not in sys.argv:
        readme.write_text(made, encoding="utf-8")
    elif made != text:
        sys.exit(
            "README.md does not show today's demos; run: .venv/bin/python scripts/update_readme.py"
        )


main()
