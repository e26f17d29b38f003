"""`wain completion`: the script with which a shell completes commands, options and their values."""

import click
from click.shell_completion import get_completion_class

from wainwright.cli import printing
from wainwright.cli.options import Choice

SHELLS = Choice(["bash", "zsh", "fish"])


@click.command()
@click.argument("shell", type=SHELLS)
def completion(shell: str) -> int:
    """Print the script that completes commands, options and their values in a shell.

    \b
    bash:  echo 'source <(wain completion bash)' >> ~/.bashrc
    zsh:   echo 'source <(wain completion zsh)' >> ~/.zshrc
    fish:  wain completion fish > ~/.config/fish/completions/wain.fish
    """
    from wainwright.cli.main import wain

    found = get_completion_class(shell)
    assert found is not None
    printing.echo_text(found(wain, {}, "wain", "_WAIN_COMPLETE").source())
    return 0
