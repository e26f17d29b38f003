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
    help="0: any free.",
)
@click.option("--cloud", metavar="FILE", help="The Cloud: region, zones, prices, reservations.")
@click.option("--seed", type=int, default=0, help="Of everything that is left to chance.")
@click.option("--log", is_flag=True, help="Every request as a line on standard error.")
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep the account here; go on with it where the file exists.",
)
@click.option(
    "--faults", metavar="FILE", help="A list of faults, or a patch as `set` takes it; or -."
)
@click.option("--throttle", is_flag=True, help="Limit calls as EC2 does.")
@click.pass_context
def emulator(context: click.Context, /, **flags: Any) -> int:
    """Serve an emulated AWS account on the loopback interface.

    Prints one line of JSON when it is ready: the endpoint, the names of what the account has, and
    the environment that points a client at it. Nothing fails, nobody is throttled and nothing is
    slow unless it is asked for. Stop it with Ctrl-C.
    """
    if context.invoked_subcommand is None:
        # Imported here: `set` needs neither the server nor the service models, and starts faster.
        from wainwright.cli.emulator_server import ServeArguments, serve

        serve(ServeArguments(**flags))
    return 0


@emulator.command(name="set")
@click.argument("file", required=False, metavar="[FILE|-]")
@click.option("--port", type=click.IntRange(1, 65535), help="Of an emulator on this computer.")
@click.option(
    "--endpoint", envvar="AWS_ENDPOINT_URL", metavar="URL", help="Or AWS_ENDPOINT_URL says it."
)
@patch_flags
def set_state(file: str | None, port: int | None, endpoint: str | None, **flags: Any) -> int:
    """Change prices, stock, reservations, faults and so on of a running emulator.

    FILE is YAML or JSON, with any of the fields prices, unavailable, capacityReservations, stock,
    faults, throttling, quota, pace, interruptions; a Cloud will do as well. A list takes the place
    of the one before, but for reservations, which are changed or added by their id, and for
    interruptions, which happen at once.
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
