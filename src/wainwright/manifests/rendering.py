"""Charts and kustomizations rendered by the user's own helm, kustomize or kubectl.

Only where `--render` asks for it: the tools are run without a shell, on local folders, and never
with a remote base, because planning must not fetch what somebody else may change.
"""

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from wainwright.manifests.folder_scan import Package, SkippedFile, is_base_of_another
from wainwright.manifests.kustomizations import UNREADABLE, with_bases
from wainwright.manifests.placeholders import FILL_IN_HINT, TEMPLATING
from wainwright.manifests.problems import Problem
from wainwright.messages.formatting import join_first, join_with_and

HELM: Final = ("helm", "template")
KUSTOMIZE: Final = (("kustomize", "build"), ("kubectl", "kustomize"))
TIMEOUT_SECONDS: Final = 60
NO_NETWORK: Final = {
    "GIT_ALLOW_PROTOCOL": "none",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "",
}
"""Kept from the network besides: a remote base that was overlooked must not be fetched."""


class RenderedPackage(msgspec.Struct, frozen=True):
    """What a tool printed for a package, and the command."""

    package: Package
    command: str
    text: str


def render_command(package: Package) -> str:
    """The command that prints the package's manifests."""
    tool = "helm template" if package.kustomization is None else "kubectl kustomize"
    return f"{tool} {package.folder}"


def render_packages(
    packages: Sequence[Package],
) -> tuple[list[RenderedPackage], list[Problem]]:
    """Every package that could be rendered, and why others could not; bases of others are not."""
    results = [
        _render(package) for package in packages if not is_base_of_another(package, packages)
    ]
    return (
        [each for each in results if isinstance(each, RenderedPackage)],
        [each for each in results if isinstance(each, Problem)],
    )


def _render(package: Package) -> RenderedPackage | Problem:
    if package.kustomization is not None:
        remote = [name for each in with_bases(package.kustomization) for name in each.remote]
        if remote:
            return _not_rendered(package, f"it has the remote base {join_first(remote)}")
    import shutil  # as subprocess below

    tools = [HELM] if package.kustomization is None else list(KUSTOMIZE)
    found = next((each for each in tools if shutil.which(each[0]) is not None), None)
    if found is None:
        names = " or ".join(each[0] for each in tools)
        return _not_rendered(package, f"there is no {names} on the PATH")
    return _run(package, found)


def _run(package: Package, tool: tuple[str, str]) -> RenderedPackage | Problem:
    import subprocess  # for --render only: loading both would take 3 ms of every command

    command = f"{' '.join(tool)} {package.folder}"
    try:
        done = subprocess.run(
            [*tool, os.path.abspath(package.folder)],  # noqa: PTH100
            env={**os.environ, **NO_NETWORK},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _not_rendered(package, f"{command} took more than {TIMEOUT_SECONDS} seconds")
    except OSError as error:
        return _not_rendered(package, f"{command} cannot be run: {error.strerror}")
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        return _not_rendered(package, f"{command} failed: {last[-1]}")
    return RenderedPackage(package, command, done.stdout.decode(errors="replace"))


def _not_rendered(package: Package, why: str) -> Problem:
    message = f"{_describe(package)}, and not read: {why}"
    hint = f"render it yourself: {render_command(package)} | wain plan -"
    return Problem(file=package.folder, message=message, hint=hint)


def describe_packages(packages: Sequence[Package]) -> list[Problem]:
    """A problem for all charts and one for each kustomization: they are not read."""
    charts = [each for each in packages if each.kustomization is None]
    others = [each for each in packages if each.kustomization is not None]
    return [*_describe_charts(charts), *map(_describe_package, others)]


def _describe_charts(charts: Sequence[Package]) -> list[Problem]:
    if len(charts) < 2:
        return [_describe_package(each) for each in charts]
    names = join_first(each.folder for each in charts)
    message = f"{len(charts):,} Helm charts, whose templates are not read: {names}"
    return [Problem(file=charts[0].folder, message=message, hint=_hint(charts[0]))]


def _describe_package(package: Package) -> Problem:
    message = f"{_describe(package)}: not read as it is"
    return Problem(file=package.folder, message=message, hint=_hint(package))


def _describe(package: Package) -> str:
    kustomization = package.kustomization
    if kustomization is None:
        return "a Helm chart"
    if UNREADABLE in kustomization.transformations:
        return UNREADABLE
    if not kustomization.transformations:
        return f"a kustomization with the remote base {join_first(kustomization.remote)}"
    return f"a kustomization with {join_with_and(kustomization.transformations)}"


def _hint(package: Package) -> str:
    return f"render it: {render_command(package)} | wain plan -, or let --render do it"


def describe_templates(templates: Sequence[SkippedFile], chart: str) -> list[Problem]:
    """One problem for all templates; `chart` is the folder of theirs, where it is known."""
    if not templates:
        return []
    first = templates[0]
    names = join_first(each.name for each in templates)
    message = (
        template_message(first.placeholder)
        if len(templates) == 1
        else f"{len(templates):,} templates, which are not manifests yet: {names}"
    )
    hint = template_hint(first.placeholder, chart)
    return [Problem(file=first.name, message=message, hint=hint)]


def template_message(placeholder: str) -> str:
    return f"a template, not a manifest: {placeholder} is a placeholder that was not filled in"


def template_hint(placeholder: str, chart: str) -> str:
    """How to fill it in; `chart` is the folder of the chart, where it is known."""
    if TEMPLATING.fullmatch(placeholder) is None:
        return FILL_IN_HINT
    return f"render the template first: helm template {chart or 'CHART'} | wain plan -"
