"""The shell face: arguments in, text out; one command a file.

Importing this loads click and nothing heavier: a command's module is loaded when the command is asked for.
"""

if not __name__.startswith("convlog."):
    msg = "import convlog.cli, not cli: the bare name would make a second copy of every class"
    raise ImportError(msg)

from .group import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": (
        "demo",
        "Import a sample session, replay it, prepare a prompt and verify everything.",
    ),
    "init": ("init", "Make a store for this folder."),
    "import": ("import_files", "Take in recorded sessions."),
    "threads": ("threads", "List the threads, last touched first."),
    "log": ("log", "Show what happened in a thread, newest first."),
    "show": ("show", "Show what an address names."),
    "replay": ("replay", "Derive past prompts again and say whether they are provably what the model saw."),
    "why": ("why", "Say why a prompt is as it is."),
    "diff": ("diff", "Compare two prompts."),
    "lint": ("lint", "Check a request against the rules that providers refuse requests by."),
    "verify": ("verify", "Check the chain and the bodies against their hashes."),
    "audit": ("audit", "Check each thread's chain, derive all of its calls again, and sum up by version and verdict."),
    "project": ("project", "Run a projection over a thread and print what it gives."),
    "branch": ("branch", "List, name, switch to or drop branches."),
    "append": ("append", "Append one event to a thread."),
    "compact": ("compact", "Summarise a range in prompts from here on."),
    "doctor": ("doctor", "Say which store is used, why, and how it is."),
    "assemblers": ("assemblers", "List every installed projection by version."),
    "export": ("export", "Write a thread to a file or to stdout."),
    "schema": ("schema", "Print the JSON Schema of the events."),
    "redact": ("redact", "Take words, or whole events, out of a thread."),
    "delete": ("delete", "Erase a thread."),
}
"""Name to (module of this package, what it does); the module's `command` is the click command."""

ALIASES = {"ls": "threads"}

group = LazyGroup(
    COMMANDS,
    ALIASES,
    name="convlog",
    help="Keep every event of an agent's conversations, and derive any past prompt again.",
    epilog="Global options stand before or after the command. Addresses: THREAD, THREAD:17, THREAD:2..15, THREAD/5,"
    " THREAD@branch; THREAD is a title, an id's start, a source id or `latest`: the one whose user's input was"
    " recorded last. Exit codes: 0 ok, 1 a check failed,"
    " 2 usage or address, 3 store missing or newer, 4 locked, 5 unprovable.",
)


def main() -> None:
    """Run the program with the process's arguments."""
    group(prog_name="convlog")
