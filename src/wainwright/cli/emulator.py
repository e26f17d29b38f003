"""`wain emulator`: an emulated AWS account that any AWS client can use."""

from pathlib import Path
from typing import Any, Final

import click

from wainwright.cli import printing
from wainwright.cli.emulator_patch import build_patch, call_admin_api, patch_flags
from wainwright.errors import InvalidInputError

DEFAULT_PORT: Final = 4580


@click.group(invoke_without_command=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port to listen on; 0 picks a free one.",
)
@click.option("--cloud", metavar="FILE", help="The Cloud: region, zones, prices, reservations.")
@click.option("--seed", type=int, default=0, help="Seed of all random choices.")
@click.option("--log", is_flag=True, help="Log every request on standard error.")
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep the account in this file; continue from it if it exists.",
)
@click.option(
    "--faults", metavar="FILE", help="A list of faults, or a patch as `set` takes it; or -."
)
@click.option("--throttle", is_flag=True, help="Limit calls as EC2 does.")
@click.pass_context
def emulator(context: click.Context, /, **flags: Any) -> int:
    """Serve an emulated AWS account on the loopback interface.

    Prints one line of JSON when it is ready: the endpoint, the names of what the account has, and
    the environment that points a client at it. No call fails, is throttled or is slow unless you
    ask for it. Stop it with Ctrl-C.
    """
    if context.invoked_subcommand is None:
        # Imported here: `set` needs neither the server nor the service models, and starts faster.
        from wainwright.cli.emulator_server import ServeArguments, serve

        serve(ServeArguments(**flags))
    return 0


@emulator.command(name="set")
@click.argument("file", required=False, metavar="[FILE|-]")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of an emulator on this computer.")
@click.option(
    "--endpoint",
    envvar="AWS_ENDPOINT_URL",
    metavar="URL",
    help="URL of the emulator; default: $AWS_ENDPOINT_URL.",
)
@patch_flags
def set_state(file: str | None, port: int | None, endpoint: str | None, **flags: Any) -> int:
    """Change prices, stock, reservations, faults and so on of a running emulator.

    FILE is YAML or JSON, with any of the fields prices, unavailable, capacityReservations, stock,
    faults, throttling, quota, pace, interruptions; a Cloud is accepted too. A list replaces the one
    before, except reservations, which are changed or added by their id, and interruptions, which
    happen at once.
    """
    patch = build_patch(file, flags)
    url = endpoint or f"http://127.0.0.1:{DEFAULT_PORT}"
    if port is not None:
        url = f"http://127.0.0.1:{port}"
    region = patch.pop("region", None)
    if region is not None:
        _check_region(url, region)
    call_admin_api(url, "change", patch)
    printing.echo(f"changed {', '.join(patch)}")
    return 0


def _check_region(endpoint: str, region: Any) -> None:
    actual = call_admin_api(endpoint, "account")["region"]
    if region != actual:
        raise InvalidInputError(f"the patch is for {region}, the emulator is in {actual}")
