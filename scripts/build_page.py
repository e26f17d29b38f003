"""Builds the report page from web/src: one file without any reference to another.

    python scripts/build_page.py            writes src/wainwright/report/visual/page.html
    python scripts/build_page.py --check    fails where that is not what the sources give

It needs Python alone: modules are put one after the other in the order of their imports, and the
lines with imports and exports go. tsc checks the modules themselves (`make page-types`).
"""

import hashlib
import re
import sys
from base64 import b64encode
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "web" / "src"
PAGE = ROOT / "src" / "wainwright" / "report" / "visual" / "page.html"
IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:function|class|const) )", re.MULTILINE)
TOP_LEVEL = re.compile(r"^(?:function|class|const|let) (\w+)", re.MULTILINE)
COMMENT = re.compile(r"^[ \t]*/\*\*.*?\*/\n", re.MULTILINE | re.DOTALL)
ENTRY = "main.js"
DATA_MARK = "{{report}}"


def modules(entry: str, known: dict[str, str]) -> dict[str, str]:
    """The modules that it needs, then itself."""
    if entry not in known:
        source = (SOURCES / entry).read_text(encoding="utf-8")
        known[entry] = ""  # a cycle ends here
        for name in IMPORT.findall(source):
            modules(name, known)
        del known[entry]
        known[entry] = EXPORT.sub("", IMPORT.sub("", source))
    return known


def bundle() -> str:
    """One script; comments are for those who read the sources."""
    parts = modules(ENTRY, {})
    text = COMMENT.sub("", "\n".join(parts.values()))
    text = re.sub(r"\n{2,}", "\n", text)
    wrapped = f'"use strict";\n(() => {{\n{text.strip()}\n}})();\n'
    if "</script" in wrapped or re.search(r"^\s*(?:import|export)\b", wrapped, re.MULTILINE):
        sys.exit("a module has an import or export that this script does not know")
    return wrapped


def check_names() -> None:
    """Modules share one scope in the page: a name may be declared once."""
    seen: dict[str, str] = {}
    for file, text in modules(ENTRY, {}).items():
        for name in TOP_LEVEL.findall(text):
            if name in seen:
                sys.exit(f"{name} is declared in {seen[name]} and in {file}: rename one of them")
            seen[name] = file


def integrity(text: str) -> str:
    return "'sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def build() -> str:
    check_names()
    script, style = bundle(), (SOURCES / "style.css").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; script-src {integrity(script)}; style-src {integrity(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    template = (SOURCES / "page.html").read_text(encoding="utf-8")
    parts = {"policy": policy, "style": style, "script": script}
    for name, text in parts.items():
        template = template.replace("{{" + name + "}}", text)
    if template.count(DATA_MARK) != 1:
        sys.exit(f"the page has no place, or several, for {DATA_MARK}")
    return template


def main(arguments: list[str]) -> int:
    built = build()
    if "--check" not in arguments:
        PAGE.write_text(built, encoding="utf-8")
        print(f"{PAGE.relative_to(ROOT)}: {len(built.encode()):,} bytes")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != built:
        print(f"{PAGE.relative_to(ROOT)} is not what web/src gives: run make page", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
