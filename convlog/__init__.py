"""convlog: an event-sourced, append-only conversation store for AI agents."""
