"""The screen: rich's console, of which only commands that draw tables need to know."""

import rich.console


class Console(rich.console.Console):
    """One that leaves it to the command line what a closed pipe means."""

    def on_broken_pipe(self) -> None:
        raise  # rich calls this while it handles the error
